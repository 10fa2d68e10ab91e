"""Requests to a playground as programs other than its page would send them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tabgnm.play.serving import Playground


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """Sends requests with the right token, Host and no Origin, unless told otherwise."""

    def __init__(self, playground: Playground) -> None:
        parts = urlsplit(playground.url)
        self.host, self.port = str(parts.hostname), int(parts.port or 0)
        self.token = parts.path.strip("/")
        self.session = playground.session

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, raw: bool = False
    ) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            content = body if raw or body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"X-Tabgnm-Token": self.token} | (headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def act(self, action: str) -> None:
        assert self.send("POST", "/api/action", {"action": action}).status == 204

    @contextmanager
    def events(self) -> Iterator[Iterator[tuple[str, Any]]]:
        """The stream of events, as pairs of name and content."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.request("GET", "/api/events", headers={"X-Tabgnm-Token": self.token})
        answer = connection.getresponse()
        assert answer.status == 200

        def read() -> Iterator[tuple[str, Any]]:
            name = ""
            for line in answer:
                if line.startswith(b"event: "):
                    name = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    yield name, json.loads(line[6:])

        try:
            yield read()
        finally:
            answer.close()
            connection.close()

    def frame(self) -> Any:
        """The current frame."""
        with self.events() as events:
            return next(content for name, content in events if name == "frame")
