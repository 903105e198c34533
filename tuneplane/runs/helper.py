"""The helper folder that rides into every job: the supervisor and `tuneplane.report`."""

from __future__ import annotations

from pathlib import Path

from tuneplane.experiment.snapshot import Snapshot


def helper() -> Snapshot:
    """The helper's files, the same for every run of this `tp`."""
    package = Path(__file__).resolve().parents[1]
    files = {
        "contained": package / "job" / "contained.sh",
        "start": package / "job" / "start.sh",
        "supervise.py": package / "job" / "supervise.py",
        "tuneplane/__init__.py": package / "__init__.py",
        "tuneplane/report.py": package / "report.py",
    }
    for module in sorted((package / "job").rglob("*.py")):
        name = module.relative_to(package).as_posix()
        if name != "job/supervise.py":
            files[f"tuneplane/{name}"] = module
    return Snapshot.of({name: file.read_bytes() for name, file in files.items()})
