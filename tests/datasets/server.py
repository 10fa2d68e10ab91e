"""A real HTTP server on this machine that misbehaves on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """What the server gives for a path.

    `truncate_at`: stop after so many bytes, though more were announced. `stall_at`: send so many, then nothing, until
    the server is closed. `broken_attempts`: how many requests get that treatment before the answer is whole. `endless`:
    send the body again and again, without saying how much there is, until the other side has had enough.
    """

    body: bytes = b""
    status: int = 200
    truncate_at: int | None = None
    stall_at: int | None = None
    broken_attempts: int = 1_000
    endless: bool = False
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Server:
    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def serve(self, name: str, answer: Answer) -> str:
        """Give this answer from now on; return its URL."""
        self.answers[f"/{name}"] = answer
        return f"{self.url}/{name}"


@contextmanager
def running_server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append(self.path)
            answer = server.answers.get(self.path, Answer(status=404))
            broken = server.requests.count(self.path) <= answer.broken_attempts
            self.send_response(answer.status if broken or answer.status == 404 else 200)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.endless:
                self.end_headers()
                with suppress(ConnectionError):
                    while not server.closing.is_set():
                        self.wfile.write(answer.body)
                return
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            cut = answer.truncate_at if answer.truncate_at is not None else answer.stall_at
            with suppress(ConnectionError):  # the other side need not want all of it
                self.wfile.write(answer.body[:cut] if broken else answer.body)
            if broken and answer.stall_at is not None:
                self.wfile.flush()
                server.closing.wait(20)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        http.shutdown()
        http.server_close()
        thread.join()
