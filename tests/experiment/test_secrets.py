"""Names of secrets, the secrets file on the login node, and its reader on the node."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneplane.errors import InputError
from tuneplane.experiment import secrets
from tuneplane.experiment.secrets import READ_SH, check_file
from tuneplane.names import looks_secret, looks_secret_file


def words(text: str) -> list[str]:
    return text.split()


# --- names ---

SECRET = words("""
HF_TOKEN HUGGING_FACE_HUB_TOKEN WANDB_API_KEY AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN MY_SECRET
MY_SECRET_NAME SECRETS DB_PASSWORD PGPASSWORD PASSWORD_FILE SSH_PASSPHRASE MYSQL_PASSWD OPENAI_API_KEY OPENAI_KEY
GOOGLE_APPLICATION_CREDENTIALS GIT_CREDENTIAL_HELPER JUPYTER_TOKEN GITHUB_TOKEN GH_TOKEN HFTOKEN AUTHTOKEN TOKEN
MY_SERVICE_TOKEN HF_TOKEN_2 OPENAI_API_KEYS COMET_API_KEY SWANLAB_API_KEY SSH_PRIVATE_KEY ENCRYPTION_KEY AUTHORIZATION
trainer.wandb.api_key logger.wandb.key hub_token tracking.token env.HF_TOKEN api-key push_to_hub_token
trainer.credentials.path access_tokens
""")

PLAIN = words("""
tokenizer TOKENIZERS_PARALLELISM tokenizer_name max_new_tokens max_tokens tokens_per_step key_metric pad_token
pad_token_id eos_token bos_token unk_token mask_token image_token stop_token_ids token_level_loss token_mask
loss_agg_mode=token-mean loss_agg_mode=token secretary monkey keyboard keys data.input_key data.prompt_key input_key
primary_key sort_key teacher_key data.reward_fn_key distillation.teacher_models.teacher_model.key
data.balance_dp_token data.continuous_token.enable actor_rollout_ref.rollout.trace.token2text xtoken_loss
trainer.total_tokens num_input_tokens_seen average_tokens_across_devices HF_TOKEN_PATH WANDB_API_KEY_FILE
exact_token_match_only ckpt.best_metric_key profiler.tool_config.npu.profile_token_end NCCL_DEBUG KEY passes
rollout.max_tokens_per_gpu author authors_only model.path lr
""")

UPSTREAM_LIKE_TOKEN_OR_KEY = words("""
ckpt.best_metric_key data.chosen_key data.image_key data.label_key data.output_key data.rejected_key data.audio_key
rollout.max_new_tokens train.max_tokens_per_gpu actor_rollout_ref.actor.ppo_max_token_len_per_gpu data.video_key
actor_rollout_ref.model.mtp.num_speculative_tokens actor_rollout_ref.model.mtp.speculative_num_draft_tokens
actor_rollout_ref.rollout.max_num_batched_tokens data.enable_thinking_key data.messages_key data.tools_key
critic.forward_max_token_len_per_gpu data.continuous_token.model_family include_num_input_tokens_seen
policy.generation.mcore_generation_config.block_size_tokens policy.dynamic_batching.logprob_mb_tokens
policy.generation.mcore_generation_config.materialize_only_last_token_logits policy.sequence_packing.train_mb_tokens
policy.megatron_cfg.moe_token_dispatcher_type opsd.per_token_kl_clip mean_token_accuracy eval_mean_token_accuracy
log_plot_token_mult_prob_error remap_dataset_keys max_tokens_per_microbatch teacher_xtoken_loss
""")


@pytest.mark.parametrize("name", SECRET)
def test_secret_names(name: str) -> None:
    assert looks_secret(name) and looks_secret(name.lower()) and looks_secret(name.upper())


@pytest.mark.parametrize("name", ["apiKey", "clientSecret", "hubToken", "dbPassword"])
def test_secret_names_in_camel_case(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["", ".", "=x", "é", *PLAIN, *UPSTREAM_LIKE_TOKEN_OR_KEY])
def test_plain_names(name: str) -> None:
    assert not looks_secret(name) and not looks_secret(name.upper())


@pytest.mark.parametrize(
    ("name", "secret"),
    [(".env", True), (".ENV", True), (".env.prod", True), (".envrc", True), ("prod.env", True), ("a.pem", True),
     ("id_rsa", True), ("id_ed25519.pub", True), ("hf_token", True), (".hf_token", True), ("token.txt", True),
     ("credentials", True), ("credentials-prod.json", True), ("api_key.txt", True), (".aws", True), ("secrets.yaml", True),
     ("wandb.key", True), (".vault-token", True), ("password.txt", True),
     ("tokenizer.json", False), ("token_utils.py", False), ("special_tokens_map.json", False), ("tokens.txt", False),
     ("credentials.py", False), ("secrets.py", False), ("environment.yml", False), ("eos_token.txt", False),
     ("keys.txt", False), (".gitignore", False), ("train.py", False), ("passport.csv", False), ("key.md", False)],
)  # fmt: skip
def test_secret_file_names(name: str, secret: bool) -> None:
    assert looks_secret_file(name) is secret


# --- the file on the login node ---


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "it's $HOME é"
    folder.mkdir(mode=0o700)
    return folder / "tuneplane secrets"


def put(path: Path, content: bytes | str, mode: int = 0o600) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)


def refusal(path: Path, *names: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        check_file(path, names, where="e/config.yaml:9 secrets")
    text = [
        line.replace(str(path.parent), "DIR") for problem in caught.value.problems for line in problem.lines()
    ]
    return [line.replace(shlex.quote(str(path))[: -len(path.name) - 2], "'DIR") for line in text]


GOOD = "# my secrets\n\nHF_TOKEN=hf_x$(id)`'\"\\ = é \nWANDB_API_KEY=b\n  \nempty=\nlast=no newline"


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_good_file(path: Path, mode: int) -> None:
    put(path, GOOD, mode)
    check_file(path, ["HF_TOKEN", "WANDB_API_KEY", "last"], where="e")
    check_file(path, [], where="e")


def test_a_file_that_is_not_there(path: Path) -> None:
    lines = refusal(path, "HF_TOKEN")
    assert lines[0] == "the secrets file `DIR/tuneplane secrets` does not exist"
    assert lines[1] == "  at       e/config.yaml:9 secrets"
    hint = lines[3].removeprefix("  try      ")
    assert hint.startswith("install -m 600 /dev/null ") and " && ${EDITOR:-vi} " in hint


@pytest.mark.parametrize("inner", ["", "new/"])
def test_the_command_that_makes_it(path: Path, inner: str) -> None:
    path = path.parent / f"{inner}s"
    with pytest.raises(InputError) as caught:
        check_file(path, ["A"], where="e")
    hint = caught.value.problems[0].hint
    env = {"PATH": os.environ["PATH"], "EDITOR": "tee"}
    subprocess.run(["/bin/bash", "-c", hint], input=b"A=b\n", env=env, check=True, capture_output=True)
    check_file(path, ["A"], where="e")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o700, 0o000, 0o602, 0o4600])
def test_its_mode(path: Path, mode: int) -> None:
    put(path, GOOD, mode)
    lines = refusal(path, "HF_TOKEN")
    if "cannot be read" not in lines[0]:
        assert lines[0] == f"the secrets file `DIR/tuneplane secrets` has mode {mode:04o}"
    assert lines[-1].startswith("  try      chmod 600 ")


def test_its_owner(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, GOOD)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert "belongs to another user" in refusal(path, "HF_TOKEN")[0]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_can_write_to(path: Path, mode: int) -> None:
    put(path, GOOD)
    path.parent.chmod(mode)
    lines = refusal(path, "HF_TOKEN")
    assert "is in a folder others can write to" in lines[0] and lines[-1].startswith("  try      chmod go-w ")


def test_kinds_of_file(path: Path) -> None:
    put(path.with_name("real"), GOOD)
    path.symlink_to("real")
    assert "is a symbolic link" in refusal(path, "HF_TOKEN")[0]
    path.unlink()
    os.mkfifo(path, 0o600)
    assert "is not a regular file" in refusal(path, "HF_TOKEN")[0]
    path.unlink()
    path.mkdir()
    assert "cannot be read: Is a directory" in refusal(path, "HF_TOKEN")[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("S3CR3T", "is not `NAME=value`"),
        ("export A=S3CR3T", "begins with `export`"),
        ('A="S3CR3T"', "has a value in quotes"),
        ("A='S3CR3T'", "has a value in quotes"),
        ("A=S3CR3T\r", "ends in a carriage return"),
        ("# comment\r", "ends in a carriage return"),
        ("A=S3CR3T\0", "holds a NUL byte"),
        ("A=S3CR3T\t", "holds a control character"),
        ("A=S3CR3T\x1b[0m", "holds a control character"),
        ("A=S3CR3T\x7f", "holds a control character"),
        ("A =S3CR3T", "has an invalid name"),
        (" A=S3CR3T", "has an invalid name"),
        ("S3CR3T==", ""),
        ("1S3CR3T=x", "has an invalid name"),
        ("A-B=S3CR3T", "has an invalid name"),
        ("\ufeffA=S3CR3T", "has an invalid name"),
        ("é=S3CR3T", "has an invalid name"),
        ("GOOD=S3CR3T", "repeats a name"),
    ],
)
def test_bad_lines_are_named_and_never_shown(path: Path, line: str, said: str) -> None:
    put(path, f"GOOD=x\n#\n{line}\n")
    lines = refusal(path, "A")
    assert "S3CR3T" not in "".join(lines)
    if said:
        assert lines[0] == f"a line of the secrets file {said}"
        assert lines[1] == "  at       DIR/tuneplane secrets:3"
        assert lines[3].startswith("  try      ${EDITOR:-vi} ")


def test_text_that_is_not_utf8(path: Path) -> None:
    put(path, b"A=S3CR3T\xff\n")
    assert refusal(path, "A")[0] == "a line of the secrets file is not UTF-8"


def test_all_that_is_missing_is_reported_together(path: Path) -> None:
    put(path, "A=1\nB=\n")
    lines = refusal(path, "A", "B", "C", "C")
    assert [line for line in lines if not line.startswith(" ")] == [
        "secret `B` has no value in the secrets file",
        "secret `C` is not in the secrets file",
    ]
    assert "  at       e/config.yaml:9 secrets" in lines
    put(path, "A=1\nB\nC\n")
    assert len([line for line in refusal(path, "D") if not line.startswith(" ")]) == 2


def test_a_file_far_too_large(path: Path) -> None:
    put(path, b"A=" + b"x" * secrets.MAX_BYTES)
    assert "is over 1 MiB" in refusal(path, "A")[0]


# --- the reader on the node ---


def read(
    path: Path | str, *names: str, prefix: str = "", before: str = "", cwd: Path | None = None
) -> tuple[int, bytes, str]:
    """Exit status, the environment a child sees, and stderr."""
    script = f'{before}\n{READ_SH}\nset -eu\nf=$1 p=$2; shift 2\nfor n in "$@"; do tp_read_secret "$f" "$n" "$p" || exit 3; done\nenv -0'  # fmt: skip
    result = subprocess.run(
        ["/bin/bash", "-p", "-c", script, "bash", str(path), prefix, *names],
        capture_output=True,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
    )
    return result.returncode, result.stdout, result.stderr.decode()


def variables(printed: bytes) -> dict[str, str]:
    return dict(item.split("=", 1) for item in printed.decode().split("\0") if item)


def test_it_exports_the_exact_value(path: Path) -> None:
    put(path, GOOD)
    code, printed, errors = read(path, "HF_TOKEN", "last")
    found = variables(printed)
    assert (code, errors) == (0, "")
    assert found["HF_TOKEN"] == "hf_x$(id)`'\"\\ = é " and found["last"] == "no newline"
    assert "WANDB_API_KEY" not in found and found["LC_ALL"] == "C.UTF-8"


def test_a_prefix_names_another_variable(path: Path) -> None:
    put(path, GOOD, 0o400)
    found = variables(read(path, "HF_TOKEN", prefix="APPTAINERENV_")[1])
    assert found["APPTAINERENV_HF_TOKEN"].startswith("hf_x") and "HF_TOKEN" not in found


def test_names_that_the_function_itself_uses(path: Path) -> None:
    names = ["tp_line", "tp_value", "tp_file", "tp_name", "tp_found", "IFS2"]
    put(path, "".join(f"{name}=1+{name}\n" for name in names))
    found = variables(read(path, *names)[1])
    assert {name: found[name] for name in names} == {name: f"1+{name}" for name in names}


def test_a_trace_never_shows_it(path: Path) -> None:
    put(path, GOOD)
    code, printed, errors = read(path, "HF_TOKEN", before="set -xv")
    assert code == 0 and "hf_x" not in errors and b"hf_x" in printed


VALUES = st.text(
    st.one_of(
        st.sampled_from("'\"`$(){}[]\\ =#;&|<>*?!~%^-\u00e9\u4e2d\U0001f600"),
        st.characters(codec="utf-8", exclude_characters="".join(map(chr, (*range(32), *range(127, 160))))),
    ),
    min_size=1,
    max_size=30,
).filter(lambda value: value[0] not in "'\"")


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(VALUES, min_size=40, max_size=40))
def test_two_thousand_values_arrive_as_they_are(tmp_path: Path, values: list[str]) -> None:
    path = tmp_path / "s"
    named = {f"V{number}": value for number, value in enumerate(values)}
    put(path, "".join(f"{name}={value}\n" for name, value in named.items()))
    check_file(path, list(named), where="e")
    code, printed, errors = read(path, *named, prefix="P_")
    found = variables(printed)
    assert (code, errors) == (0, "")
    assert {name: found[f"P_{name}"] for name in named} == named


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (GOOD, 0o644, "expected owner"),
        (GOOD, 0o640, "expected owner"),
        ("", 0o600, "holds this name 0 times"),
        ("#A=S3CR3T\n", 0o600, "holds this name 0 times"),
        (" A=S3CR3T\n", 0o600, "holds this name 0 times"),
        ("A=S3CR3T\nA=S3CR3T2\n", 0o600, "holds this name 2 times"),
        ("A=\n", 0o600, "holds no value"),
        ("A='S3CR3T'\n", 0o600, "in quotes"),
        ("A=S3CR3T\r\n", 0o600, "control characters"),
        ("A=S3C\0R3T\n", 0o600, "holds NUL bytes"),
        ("B=\0\nA=S3CR3T\n", 0o600, "holds NUL bytes"),
    ],
)
def test_what_it_refuses(path: Path, content: str, mode: int, said: str) -> None:
    put(path, content, mode)
    code, printed, errors = read(path, "A")
    errors = errors.replace(str(path), "FILE")
    assert code == 3 and printed == b"" and said in errors and "S3CR3T" not in errors
    assert errors.startswith("tp: secret A: the file FILE ") and errors.count("\n") == 1


def test_what_else_it_refuses(path: Path) -> None:
    assert "is not on this node" in read(path, "A")[2]
    os.mkfifo(path, 0o600)
    assert "not a regular file" in read(path, "A")[2]
    path.unlink()
    put(path.with_name("real"), "A=S3CR3T\n")
    path.symlink_to("real")
    assert "is a symbolic link" in read(path, "A")[2]
    for name in ("", "A B", "A;id", "1A", "A[$(id)]", "é"):
        assert "invalid name" in read(path.with_name("real"), name)[2]
    assert "invalid name" in read(path.with_name("real"), "A", prefix="-")[2]
    code, _, errors = read(path.with_name("real"), "A", before="readonly A=1")
    assert code == 3 and "S3CR3T" not in errors


def test_a_relative_name_that_looks_like_an_option(path: Path) -> None:
    put(path.parent / "-n", "A=b\n")
    assert variables(read("-n", "A", cwd=path.parent)[1])["A"] == "b"


def test_read_sh_passes_shellcheck(tmp_path: Path) -> None:
    tool = shutil.which("shellcheck")
    if not tool:
        pytest.skip("needs shellcheck")
    (tmp_path / "s").write_text(f"#!/bin/bash -p\n{READ_SH}")
    assert subprocess.run([tool, tmp_path / "s"], capture_output=True, text=True).stdout == ""
