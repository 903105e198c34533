"""`serve.py HOST PORT`: a judge that says yes to who has the job's key."""

from __future__ import annotations

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = f"Bearer {os.environ['TUNEPLANE_API_KEY']}"


class Judge(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == KEY
        self.send_response(200 if known else 401)
        self.end_headers()
        if known:
            self.wfile.write(f"{os.uname().nodename} says yes".encode())
        if known and self.path == "/end":
            os._exit(9)


if __name__ == "__main__":
    print("the judge sits", flush=True)
    ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Judge).serve_forever()
