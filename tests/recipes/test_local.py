"""`pytorch/image-classification` through `tp submit` on the local site, to its end and again from its checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

SITE = """
schema: 1
title: {{en: This machine}}
scheduler: local
runtime: {{kind: host}}
inherit: [PATH]
folders: {{runs: '{runs}', scratch: '{scratch}'}}
network: {{online: true}}
profiles: {{cpu2: {{cpus_per_node: 2, processes_per_node: 2, max_nodes: 1}}}}
default_profile: cpu2
default_time: 10m
recipes: ['{overlay}']
"""


@pytest.mark.torch
def test_image_classification_runs_on_the_local_site(torch_python: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    overlay = REPOSITORY / "tests/catalog_overlay"
    site = tmp_path / "here.yaml"
    site.write_text(SITE.format(runs=tmp_path / "runs", scratch=tmp_path / "scratch", overlay=overlay))
    environment = {
        "PATH": f"{torch_python.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(REPOSITORY),
    }

    def tp(*words: str) -> str:
        command = [sys.executable, "-m", "tuneplane", "--site", str(site), *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    method = ("--method", "pytorch/image-classification", "--framework-version", "2.13.0")
    tp("new", "digits", *method)
    run = tp("submit", "digits", "--set", "epochs=3", "--wait").strip()
    facts = json.loads(tp("job", "status", run, "--json"))
    assert (facts["state"], facts["code"], facts["attempt"]) == ("completed", 0, 1)
    result = json.loads((tmp_path / "runs" / run / "output/result.json").read_text())
    assert (result["world_size"], result["hosts"]) == (2, [os.uname().nodename])
    assert result["accuracy"] > 0.9 and result["samples_seen"] == 3 * 22 * 64
    assert "validation/accuracy" in (tmp_path / "runs" / run / "attempts/1/metrics.jsonl").read_text()
    assert os.listdir(tmp_path / "scratch") == []
