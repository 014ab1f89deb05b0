"""A web server that does what no good one does."""

from __future__ import annotations

import http.server
import time
from typing import Any

DRIP_S = 0.05


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers by the first part of the path."""

    def do_HEAD(self) -> None:
        self._answer(is_head=True)

    def do_GET(self) -> None:
        self._answer(is_head=False)

    def _answer(self, *, is_head: bool) -> None:
        kind = self.path.split("/")[1].partition("?")[0]
        if kind.isdigit():
            self.send_error(int(kind))
        elif kind == "circle":
            self.send_response(302)
            self.send_header("Location", self.path)
            self.end_headers()
        else:
            self.send_response(200)
            self.end_headers()
            if not is_head:
                self._stream(b" " * 65_536 if kind == "endless" else b" ", 0 if kind == "endless" else DRIP_S)

    def _stream(self, piece: bytes, pause_s: float) -> None:
        try:
            while True:
                self.wfile.write(piece)
                self.wfile.flush()
                time.sleep(pause_s)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Write nothing."""
