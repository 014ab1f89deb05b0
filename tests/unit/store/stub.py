"""A small file server that fails on demand, and fsspec file systems that use it."""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urlsplit

from fsspec import AbstractFileSystem

TIMEOUT_SECONDS = 60.0  # a test with a server that stalls makes it short


@dataclass
class Store:
    """The files of the server, and the faults of the next requests by method, in order."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    stalled: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def fault(self, method: str) -> str:
        waiting = self.faults.get(method, [])
        return waiting.pop(0) if waiting else ""

    def stall(self) -> None:
        self.stalled.set()
        self.released.wait()


class Handler(BaseHTTPRequestHandler):
    store: Store

    def log_message(self, *_: Any) -> None:
        """Write nothing."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the client is gone
            self.close_connection = True

    def begin(self) -> tuple[str, str]:
        path = unquote(urlsplit(self.path).path)
        self.store.requests.append((self.command, path))
        return path, self.store.fault(self.command)

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def refuse(self, fault: str) -> bool:
        """Answer with a fault that does not depend on the file, and return whether there was one."""
        if fault.isdigit():
            self.answer(int(fault), f"denied: {self.headers.get('Authorization', '')} {self.path}".encode())
        elif fault == "drop":
            self.drop()
        elif fault == "stall":
            self.store.stall()
            self.drop()
        return fault.isdigit() or fault in ("drop", "stall")

    def do_PUT(self) -> None:
        path, fault = self.begin()
        size = int(self.headers["Content-Length"])
        if fault == "drop half-way":
            self.store.files[path] = self.rfile.read(size // 2)
            self.drop()
            return
        body = self.rfile.read(size)
        if self.refuse(fault):
            return
        kept = {"truncate": body[: size // 2], "spoil": b"?" + body[1:]}.get(fault, body)
        self.store.files[path] = kept
        if fault == "keep and drop":
            self.drop()
            return
        self.answer(201)

    def do_HEAD(self) -> None:
        path, fault = self.begin()
        if self.refuse(fault):
            return
        if path not in self.store.files:
            self.answer(404)
            return
        body = self.store.files[path]
        md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        size = len(body) + (fault == "lie")
        self.answer(200, headers={"Content-Length": str(size), "X-MD5": md5})

    def do_GET(self) -> None:
        path, fault = self.begin()
        if self.refuse(fault):
            return
        body = self.store.files.get(path)
        if body is None:
            self.answer(404)
        elif fault == "cut":
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.drop()
        else:
            self.answer(200, body)

    def do_DELETE(self) -> None:
        path, fault = self.begin()
        if not self.refuse(fault):
            self.answer(204 if self.store.files.pop(path, None) is not None else 404)

    def do_MOVE(self) -> None:
        path, fault = self.begin()
        if self.refuse(fault):
            return
        self.store.files[self.headers["Destination"]] = self.store.files.pop(path)
        if fault == "keep and drop":
            self.drop()
            return
        self.answer(201)


@contextmanager
def serving() -> Iterator[Store]:
    store = Store()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"store": store})) as server:
        server.daemon_threads = True
        store.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield store
        finally:
            store.released.set()
            server.shutdown()
            thread.join()


class FlatFileSystem(AbstractFileSystem):
    """A file system that cannot rename."""

    protocol: ClassVar[Any] = "flat"
    cachable = False

    def __init__(self, host: str = "", port: int = 0, auth: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.host, self.port, self.auth = host, port, auth

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return urlsplit(path).path if "://" in path else path

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        found = urlsplit(path)
        return {"host": found.hostname, "port": found.port, "auth": f"{found.username}:{found.password}?{found.query}"}

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[Any, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, quote(path), body, {"Authorization": self.auth, **headers})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status == 404:
            raise FileNotFoundError(path)
        if answer.status >= 400:
            raise OSError(f"{answer.status} from stub://{self.auth}@{self.host}{path}: {content.decode()}")
        return answer, content

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        answer, _content = self.ask("HEAD", self._strip_protocol(path))
        return {"name": path, "type": "file", "size": int(answer.headers["Content-Length"])}

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        with open(lpath, "rb") as file:  # noqa: PTH123 - as fsspec does
            self.ask("PUT", rpath, file.read())

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        if mode != "rb":
            raise NotImplementedError
        return io.BytesIO(self.ask("GET", path)[1])

    def rm_file(self, path: str) -> None:
        self.ask("DELETE", path)


class StubFileSystem(FlatFileSystem):
    """A file system that can rename."""

    protocol: ClassVar[Any] = "stub"

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        self.ask("MOVE", path1, Destination=path2)


class LateFileSystem(FlatFileSystem):
    """A file system that has a method to rename, which is not implemented."""

    protocol: ClassVar[Any] = "late"

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        raise NotImplementedError(path1, path2)


class BucketFileSystem(StubFileSystem):
    """An object store that reports checksums."""

    protocol: ClassVar[Any] = "gs"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        answer, _content = self.ask("HEAD", path)
        size = int(answer.headers["Content-Length"])
        return {"name": path, "type": "file", "size": size, "md5Hash": answer.headers["X-MD5"]}


class ReadOnlyFileSystem(StubFileSystem):
    protocol: ClassVar[Any] = "readonly"

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        raise NotImplementedError(lpath, rpath)


class RudeFileSystem(StubFileSystem):
    """A file system that raises SystemExit."""

    protocol: ClassVar[Any] = "rude"

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        raise SystemExit(json.dumps({"aws_secret_access_key": self.auth, lpath: rpath}))


KINDS = (StubFileSystem, FlatFileSystem, LateFileSystem, BucketFileSystem, ReadOnlyFileSystem, RudeFileSystem)
