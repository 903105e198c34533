"""What Apptainer would change or refuse is refused at compile time; `test_apptainer.py` shows that it would."""

from __future__ import annotations

import pytest
from render.places import Place

from tuneplane.plan.apptainer import size


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [
        ('env: {A: "x\\u0080y"}', (), "the value of `A` holds U+0080, which Apptainer cannot hand in"),
        ('env: {A: "x\\u0081y"}', (), "the value of `A` holds U+0081, which Apptainer cannot hand in"),
        ('env: {A: "x\\r\\ny"}', (), "the value of `A` holds CR LF, which Apptainer cannot hand in"),
        ("env: {key: x}", (), "`key` belongs to Apptainer"),
        (
            "",
            ("--train-data", "/x/a\r\nb"),
            "the path of data.train holds CR LF, which Apptainer cannot mount",
        ),
        ("", ("--", *["<" * 100_000] * 2), "the variables and words need 12"),
    ],
)
def test_what_apptainer_cannot_take_is_refused(
    place: Place, config: str, options: tuple[str, ...], said: str
) -> None:
    place.experiment("exit 0", f"{config}\n")
    result = place.tp("--site", "slurm-apptainer", "compile", "exp", "--image", "/x.sif", *options)
    assert (result.code, result.out) == (3, "")
    assert said in result.err
    if config:
        assert "at       exp/config.yaml:1 env." in result.err
    # on the host nothing of this is in the way
    assert place.tp("--site", "here", "compile", "exp", *options).code == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 2), ("abc", 5), ("é", 4), ('"\\', 6), ("\n\t\r", 8), ("\x01", 8), ("\x7f", 3), ("<>&", 20)],
)
def test_the_size_is_that_of_json_as_go_writes_it(text: str, expected: int) -> None:
    assert size(text) == expected
