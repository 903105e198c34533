"""Asks every judge with the job's key and without; `train.py CODE [PATH]` ends with CODE after a question at PATH."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path


def ask(url: str, key: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def main() -> None:
    urls = os.environ["TUNEPLANE_POOL_JUDGE_URLS"].split()
    key, rank = os.environ["TUNEPLANE_API_KEY"], os.environ["TUNEPLANE_NODE_RANK"]
    found = {url: [ask(url + "/x", key), ask(url + "/x", "guess")] for url in urls}
    found["host"] = [(0, os.uname().nodename), (int(os.environ["TUNEPLANE_NODES"]), "")]
    Path(os.environ["TUNEPLANE_OUTPUT_DIR"], f"asked-{rank}").write_text(json.dumps(found))
    if len(sys.argv) > 2:
        try:
            ask(urls[0] + sys.argv[2], key)
        except OSError:
            time.sleep(600)
    sys.exit(int(sys.argv[1]))


if __name__ == "__main__":
    main()
