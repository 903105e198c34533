"""Names that mean something: variables that belong to the launcher, and whatever looks like a secret."""

from __future__ import annotations

import os
import re

_OWNED_PREFIXES = (
    "TUNEPLANE_",
    "MASTER_",
    "RAY_",
    "TORCHELASTIC_",
    "PET_",
    "SLURM_",
    "SBATCH_",
    "SRUN_",
    "APPTAINER",
    "SINGULARITY",
    "PYXIS_",
    "ENROOT_",
    "XDG_",
    "BASH",
    "LD_AUDIT",
    "tp_",
)
_OWNED = frozenset(
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME "
    "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES PATH LD_PRELOAD ENV HOME USER LOGNAME TMPDIR PWD "
    "OLDPWD SHELL SHLVL IFS "
    "UID EUID PPID GROUPS HOSTNAME HOSTTYPE MACHTYPE OSTYPE RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME LINENO "
    "FUNCNAME FUNCNEST DIRSTACK PIPESTATUS SHELLOPTS OPTARG OPTIND OPTERR COMP_WORDBREAKS HISTCMD CDPATH GLOBIGNORE "
    "EXECIGNORE PS0 PS1 PS2 PS3 PS4 PROMPT_COMMAND POSIXLY_CORRECT MAPFILE REPLY COPROC TMOUT CHILD_MAX INPUTRC "
    "PYTHONPATH _".split()
)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


def owned(name: str) -> bool:
    """Whether the launcher or the shell itself owns the variable."""
    return name in _OWNED or name.startswith(_OWNED_PREFIXES)


def refusal(name: str) -> str:
    """Why a site or a recipe cannot set the variable, empty when it can."""
    if not VARIABLE.match(name):
        return "is no name of a variable"
    if owned(name):
        return "belongs to the launcher"
    return "looks like a secret, which stands in the secrets file" if looks_secret(name) else ""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ALWAYS = re.compile(
    r"passw(or)?d|passphrase|credential|apikeys?$|secret(s|keys?|token)?$|^bearer$|^authorization$"
)
_WHOSE = _set(
    "access account anthropic api app auth azure client comet deploy encryption gh github gitlab hf hub "
    "huggingface master mlflow neptune openai private refresh secret shared signing ssh storage swanlab wandb"
)
"""Words before `key` that make it a secret, not a column or an index: `api_key`, `logger.wandb.key`."""

_TEXT = _set(
    "added assistant audio balance batch begin bos by chat cls continuous cp decoder dp encoder end eos first gold "
    "image instruction last mask max mean message min n new next num output pad per placeholder prompt reasoning "
    "response reward role score sep seq sequence special start step stop student sum system target teacher text "
    "think thinking tool unk video vision word"
)
"""Words before `token` that make it a token of text: `eos_token`, `balance_dp_token`."""

_CODE = _set(
    ".bash .c .cc .cfg .cpp .cu .cuh .go .h .hpp .ipynb .j2 .jinja .js .lua .md .pl .py .pyi .pyx .rs .rst .sh .ts"
)
_SECRET_FILE = re.compile(
    r"\.env(rc|\..*)?|.*\.(env|pem|key|p12|pfx|jks|kdbx|htpasswd)|id_(rsa|dsa|ecdsa|ed25519).*"
    r"|[._]netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|\.(aws|ssh|gnupg)",
    re.DOTALL,
)


def _words(text: str) -> list[str]:
    """Lower-case words of a name: `apiKey`, `API_KEY` and `api-key` give the same; a number at the end is dropped."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    words = [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]
    return words[:-1] if len(words) > 1 and words[-1].isdigit() else words


def looks_secret(name: str) -> bool:
    """Whether `name` (an environment variable, a parameter or a dotted upstream key) names a secret.

    A name that points at a secret without holding it (`HF_TOKEN_PATH`) does not; text after `=` is not looked at.
    """
    parts = [_words(part) for part in name.split("=", 1)[0].split(".")]
    if any(_ALWAYS.search(word) for words in parts for word in words):
        return True
    *rest, words = parts
    if not words:
        return False
    before = words[:-1] or (rest[-1] if rest else [])
    if words[-1] in ("key", "keys"):
        return bool(before) and before[-1] in _WHOSE
    if words[-1] == "id" and words[-3:-1] == ["access", "key"]:
        return True
    if words[-1] == "tokens":
        return bool(words[:-1]) and words[-2] in _WHOSE
    if words[-1] == "token":
        return not _TEXT & set(words[:-1])
    return words[-1].endswith("token") and words[-1][: -len("token")] in _WHOSE


def looks_secret_file(name: str) -> bool:
    """Whether a file or folder of this base name is kept out of a snapshot: `.env`, `id_rsa`, `hf_token`, `token.txt`.

    Program text is not (`token_utils.py`), nor is what belongs to a tokenizer (`tokenizer.json`).
    """
    lower = name.lower()
    if _SECRET_FILE.fullmatch(lower):
        return True
    stem, suffix = os.path.splitext(name.lstrip("."))
    if suffix.lower() in _CODE:
        return False
    return lower.startswith("credentials") or looks_secret(stem.replace(".", "_"))
