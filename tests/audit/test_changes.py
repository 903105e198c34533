"""A script with something changed: each change is named, with the exit code that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from audit.audited import audited, found, rewrite
from audit.conftest import Toy

END = 'tp_finish "$tp_status" step\n'
HEADER_LINE = "#   time        2h"
EXPORTS = "export APPTAINERENV_MINE='a b'\nexport APPTAINERENV_NCCL_DEBUG=WARN\n"


def line_of(toy: Toy, text: str) -> int:
    """The number of the one line of the script that begins with `text`, as it was submitted."""
    lines = toy.script.read_text().split("\n")
    [number] = [number for number, line in enumerate(lines, 1) if line.strip().startswith(text)]
    return number


Change = tuple[str, str] | Callable[[str], str]
CHANGES: dict[str, tuple[Change, str, str, str | None, str | None]] = {
    "a directive": (
        ("--time=0-02:00:00", "--time=7-00:00:00"),
        "directive",
        "line {} --time",
        "#SBATCH --time=0-02:00:00",
        "#SBATCH --time=7-00:00:00",
    ),
    "a flag with a value": (
        ("#SBATCH --exclusive\n", "#SBATCH --exclusive=user\n"),
        "directive",
        "line {} --exclusive",
        "#SBATCH --exclusive",
        "#SBATCH --exclusive=user",
    ),
    "a directive more": (
        ("#SBATCH --exclusive\n", "#SBATCH --exclusive\n#SBATCH --reservation=mine\n"),
        "directive",
        "line {} --reservation",
        None,
        "#SBATCH --reservation=mine",
    ),
    "a directive less": (
        ("#SBATCH --exclusive\n", ""),
        "directive",
        "line {} --exclusive, as compiled",
        "#SBATCH --exclusive",
        None,
    ),
    "an argument": (
        ("--loss.beta=0.3", "--loss.beta=0.9"),
        "argument",
        "line {} --loss.beta",
        "--loss.beta=0.3",
        "--loss.beta=0.9",
    ),
    "an argument more, at the end": (
        ("--train.warmup=0\n", "--train.warmup=0 \\\n        --evil\n"),
        "argument",
        "line {} --evil",
        None,
        "--evil",
    ),
    "the last argument less": (
        (" \\\n        --train.warmup=0\n", "\n"),
        "argument",
        "line {} --train.warmup, as compiled",
        "--train.warmup=0",
        None,
    ),
    "an item of a list": (("        2 \\\n", "        3 \\\n"), "argument", "line {} (launch)", "2", "3"),
    "the end of an argument's line": (
        ("        bash \\\n", "        bash   \\\n"),
        "argument",
        "line {} (launch)",
        "        bash \\",
        "        bash   \\",
    ),
    "an argument's line that goes on no more": (
        ("        bash \\\n", "        bash\n"),
        "argument",
        "line {} (launch)",
        "        bash \\",
        "        bash",
    ),
    "the last argument's line that goes on": (
        ("        --train.warmup=0\n", "        --train.warmup=0 \\\n"),
        "argument",
        "line {} --train.warmup",
        "--train.warmup=0",
        "--train.warmup=0 \\",
    ),
    "a variable": (
        ("MINE='a b'", "MINE='a c'"),
        "environment",
        "line {} MINE",
        "export APPTAINERENV_MINE='a b'",
        "export APPTAINERENV_MINE='a c'",
    ),
    "a variable more": (
        (EXPORTS, f"{EXPORTS}export LD_PRELOAD=/tmp/x.so\n"),
        "environment",
        "line {} LD_PRELOAD",
        None,
        "export LD_PRELOAD=/tmp/x.so",
    ),
    "a variable's runtime": (
        ("APPTAINERENV_MINE=", "MINE="),
        "environment",
        "line {} MINE",
        "export APPTAINERENV_MINE='a b'",
        "export MINE='a b'",
    ),
    "a line at the end": ((END, f"{END}rm -rf /\n"), "script", "line {} (outcome)", None, "rm -rf /"),
    "no line end at the end": (
        lambda text: text.removesuffix("\n"),
        "script",
        "line {} (outcome), as compiled",
        "",
        None,
    ),
    "a line less": (
        ("umask 027\n", ""),
        "script",
        "line {} (environment), as compiled",
        "umask 027",
        None,
    ),
    "a line in another place": (
        ("set -u\numask 027\n", "umask 027\nset -u\n"),
        "script",
        "line {} (environment), moved from line {}",
        "umask 027",
        "umask 027",
    ),
    "a variable in another place": (
        (EXPORTS, "".join(reversed(EXPORTS.splitlines(keepends=True)))),
        "environment",
        "line {} NCCL_DEBUG, moved from line {}",
        "export APPTAINERENV_NCCL_DEBUG=WARN",
        "export APPTAINERENV_NCCL_DEBUG=WARN",
    ),
    "the header": (
        (HEADER_LINE, "#   time        1h"),
        "header",
        "line {} time",
        HEADER_LINE,
        "#   time        1h",
    ),
    "the command": (
        ("--set kl_beta=0.3", "--set kl_beta=0.2"),
        "header",
        "line {} command",
        "…",
        "…",
    ),
    "the heredoc": (
        ('"beta": 0.3', '"beta": 0.9'),
        "parameter",
        "line {} beta",
        '"beta": 0.3,',
        '"beta": 0.9,',
    ),
    "an item of the heredoc": (
        ("      2\n", "      2,\n      3\n"),
        "parameter",
        "line {} (checks)",
        "…",
        "…",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_named(toy: Toy, case: str) -> None:
    change, kind, where, expected, now = CHANGES[case]
    rewrite(toy.script, change)
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (4, "differs"), report
    first, *more = found(report)
    assert first[0] == kind
    assert first[1].translate(str.maketrans("", "", "0123456789")) == where.replace("{}", "")
    if expected != "…":
        assert (first[2], first[3]) == (expected, now)
        assert more == []
    assert report["err"].startswith("error: the audit found ")


def test_lines_are_numbered_as_they_stand(toy: Toy) -> None:
    number = line_of(toy, "#SBATCH --time=")
    rewrite(toy.script, ("--time=0-02:00:00", "--time=1-00:00:00"))
    assert found(audited(toy.world, toy.run))[0][1] == f"line {number} --time"
    gone = line_of(toy, "#SBATCH --job-name=")
    rewrite(toy.script, ("#SBATCH --job-name=exp\n", ""))
    named = [item[1] for item in found(audited(toy.world, toy.run))]
    assert named == [f"line {gone} --job-name, as compiled", f"line {number - 1} --time"]


def test_several_changes_are_all_named(toy: Toy) -> None:
    rewrite(
        toy.script,
        ("--mem=0", "--mem=1M"),
        ("MINE='a b'", "MINE=x"),
        ("--kind=small", "--kind=large"),
        ('"kind": "small"', '"kind": "large"'),
        (END, f"{END}echo more\n"),
    )
    report = audited(toy.world, toy.run)
    assert [(kind, where.split(" ", 2)[2]) for kind, where, _, _ in found(report)] == [
        ("directive", "--mem"),
        ("environment", "MINE"),
        ("parameter", "kind"),
        ("argument", "--kind"),
        ("script", "(outcome)"),
    ]
    assert report["code"] == 4 and "found 5 differences" in report["err"]


def test_bytes_that_are_no_text(toy: Toy) -> None:
    toy.script.unlink()
    script = audited_script(toy)
    toy.script.write_bytes(script.replace(b"umask 027", b"umask 027 # \xff\x1b[31m"))
    report = audited(toy.world, toy.run)
    assert found(report)[0][2:] == ("umask 027", "umask 027 # \\xff\x1b[31m")
    said = toy.world.tp("audit", str(toy.run))
    assert said.code == 4 and "\\udcff\\x1b[31m" in said.out


def audited_script(toy: Toy) -> bytes:
    """The script as it was submitted, from the command in its header."""
    said = toy.world.tp(
        "--site", "cluster", "compile", str(toy.experiment), "--image", str(toy.image), "--set", "kl_beta=0.3"
    )
    assert said.code == 0, said
    return said.out.encode()


def test_a_script_made_to_be_slow_to_compare(toy: Toy) -> None:
    rewrite(toy.script, lambda text: "\n".join(f"{n} {line}" for n, line in enumerate(text.split("\n") * 40)))
    report = audited(toy.world, toy.run)
    assert report["code"] == 4 and len(found(report)) == 201
    assert found(report)[-1][3].endswith("more differences")


# -- digests ------------------------------------------------------------------------------------------------


def digests(toy: Toy) -> dict[str, str]:
    import re

    return dict(re.findall(r"#   (lock|files|helper) +sha256:([0-9a-f]{64})", toy.script.read_text()))


@pytest.mark.parametrize("label", ["lock", "files", "helper"])
def test_a_digest_of_the_header(toy: Toy, label: str) -> None:
    """Where the script names another digest than what there is, compiling again says which."""
    digest, other = digests(toy)[label], "0" * 64
    rewrite(toy.script, (f"#   {label:<11} sha256:{digest}", f"#   {label:<11} sha256:{other}"))
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (4, "differs")
    [(kind, where, expected, now)] = found(report)
    assert (kind, where.split(" ", 2)[2]) == ("header", label)
    assert digest in expected and other in now


def test_the_digest_that_is_checked_on_the_node(toy: Toy) -> None:
    digest, other = digests(toy)["files"], "0" * 64
    rewrite(toy.script, (f'_files.sha256" {digest}', f'_files.sha256" {other}'))
    report = audited(toy.world, toy.run)
    [(kind, where, expected, now)] = found(report)
    assert kind == "script" and where.endswith("(checks)")
    assert digest in expected and other in now and report["code"] == 4


# -- the record ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        ("--time=0-02:00:00", "--time=7-00:00:00"),
        ("MINE='a b'", "MINE=evil"),
        ("        bash \\\n", "        evil \\\n"),
        ("umask 027", "umask 000"),
    ],
    ids=["a directive", "a variable", "the interpreter", "a line"],
)
def test_a_record_that_was_edited_to_match(toy: Toy, change: tuple[str, str]) -> None:
    """What a plan says is not asked: only claims that nobody else can make are."""
    rewrite(toy.script, change)
    record = toy.record.read_text()
    for old, new in (("0-02:00:00", "7-00:00:00"), ('"a b"', '"evil"'), ('"bash"', '"evil"')):
        assert old in record
        record = record.replace(old, new)
    toy.record.unlink()
    toy.record.write_text(record)
    report = audited(toy.world, toy.run)
    assert report["code"] == 4 and len(found(report)) == 1


@pytest.mark.parametrize("where", ["model", "data.train"])
def test_a_path_that_does_not_follow_from_the_configuration(toy: Toy, where: str) -> None:
    """Script and record agree on another model: the frozen configuration names this one."""
    path = f"{toy.experiment}/models/base" if where == "model" else "/data/pairs"
    for file in (toy.script, toy.record):
        text = file.read_bytes().decode()
        quoted = path.replace('"', '\\"').replace("世界", "\\u4e16\\u754c") if file == toy.record else path
        shell = path.replace("'", "'\\''")
        assert quoted in text
        file.unlink()
        file.write_text(text.replace(quoted, "/evil").replace(shell, "/evil"))
    report = audited(toy.world, toy.run)
    assert report["code"] == 4
    assert ("environment" in {item[0] for item in found(report)}) and report["verdict"] == "differs"


def test_a_run_without_its_record(toy: Toy) -> None:
    toy.record.unlink()
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (0, "untouched"), report
    assert report["notes"][0] == "run.json cannot be read: what the script says of itself is taken as claimed"
    rewrite(toy.script, ("MINE='a b'", "MINE=x"))
    assert [item[0] for item in found(audited(toy.world, toy.run))] == ["environment"]


RECORDS: dict[str, Any] = {
    "no JSON": "{",
    "a list": "[]",
    "no plan": "{}",
    "a plan of text": '{"plan": "x"}',
    "numbers": '{"plan": {"provenance": {"tool_version": 1}, "image": null, "located": []}}',
}


@pytest.mark.parametrize("case", RECORDS)
def test_a_record_that_says_nothing(toy: Toy, case: str) -> None:
    toy.record.unlink()
    toy.record.write_text(RECORDS[case])
    assert audited(toy.world, toy.run)["verdict"] == "untouched"


def test_neither_record_nor_header(toy: Toy) -> None:
    toy.record.unlink()
    rewrite(toy.script, ("# Job script of tuneplane", "# Job script"))
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
    assert report["reasons"] == ["it has no header of a script of tuneplane"]
