"""A random model of two layers with a tokenizer of its own, twenty conversations and twenty tasks: `tiny.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    special = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator([], trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet))
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<|pad|>", eos_token="<|im_end|>", chat_template=TEMPLATE
    )


def main(folder: Path) -> None:
    words = tokenizer()
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
    ids = {"eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id, "bos_token_id": None}
    config = Qwen2Config(vocab_size=len(words), **shape, **heads, **ids)
    Qwen2ForCausalLM(config).save_pretrained(folder / "model")
    words.save_pretrained(folder / "model")
    sums = [(a, b) for a in range(5) for b in range(4)]
    asked = [[{"role": "user", "content": f"{a} plus {b}"}] for a, b in sums]
    answered = [
        [*ask, {"role": "assistant", "content": str(a + b)}] for ask, (a, b) in zip(asked, sums, strict=True)
    ]
    pd.DataFrame({"messages": answered}).to_parquet(folder / "conversations.parquet")
    sums_of = [str(a + b) for a, b in sums]
    tasks = {
        "prompt": asked,
        "data_source": "sums",
        "reward_model": [{"style": "rule", "ground_truth": result} for result in sums_of],
        "label": sums_of,
    }
    pd.DataFrame(tasks).to_parquet(folder / "tasks.parquet")


main(Path(sys.argv[1]))
