"""The web application: the files of the page, the stream of events, and two kinds of messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tabgnm.play.guard import Guard
from tabgnm.play.session import Listener, Session, TooManyPages
from tabgnm.play.settings import BadMessage, parsed, parsed_action

LARGEST_BODY = 4096

_STATIC = Path(__file__).parent / "static"
_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


class _TooLarge(ValueError):
    """A message has more bytes than any that the page sends."""


class _EventStream(StreamingResponse):
    """Server-sent events for one page, which is forgotten when its connection ends, however that happens."""

    def __init__(self, session: Session, listener: Listener) -> None:
        super().__init__(session.events(listener), media_type="text/event-stream")
        self._session, self._listener = session, listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._session.leave(self._listener)


def application(session: Session, token: str, port: int) -> Starlette:
    """Return the application for one session."""
    # Read once: a request then names an entry of a dictionary, never a file.
    files = {path.name: path.read_bytes() for path in _STATIC.iterdir() if path.suffix in _MEDIA_TYPES}

    async def page(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in files:
            return JSONResponse({"error": "There is no such file."}, status_code=404)
        return Response(files[name], media_type=_MEDIA_TYPES[Path(name).suffix])

    async def events(_: Request) -> Response:
        try:
            return _EventStream(session, session.listen())
        except TooManyPages:
            error = "The playground is open in too many tabs; close one and load this page again."
            return JSONResponse({"error": error}, status_code=503)

    return Starlette(
        routes=[
            Route("/api/events", events, methods=["GET"]),
            Route("/api/settings", _receiver(session.change), methods=["POST"]),
            Route("/api/action", _receiver(lambda message: session.act(parsed_action(message))), methods=["POST"]),
            Route("/{token}/", page, methods=["GET"]),
            Route("/{token}/{name}", page, methods=["GET"]),
        ],
        middleware=[Middleware(Guard, token=token, port=port)],
    )


def _receiver(act: Callable[[Any], None]) -> Callable[[Request], Any]:
    """Return an endpoint that reads a message and acts on it."""

    async def receive(request: Request) -> Response:
        try:
            act(parsed(await _body(request)))
        except _TooLarge:
            return JSONResponse({"error": f"expected at most {LARGEST_BODY} bytes"}, status_code=413)
        except (BadMessage, ClientDisconnect) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return Response(status_code=204)

    return receive


async def _body(request: Request) -> bytes:
    """Return the body of a request, of which no more is read than a message may have."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise _TooLarge
    return body
