"""Who may talk to the server: only the page that it served itself, with its token.

Binding to 127.0.0.1 keeps other computers out, but not other pages in the same browser. A page of another site can send
requests here, and with a name that resolves to 127.0.0.1 (DNS rebinding) it can read the answers. Hence all three: the
name by which the server is addressed, the origin of the page that asks, and a token that only the printed address has.
"""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = "x-tabgnm-token"
API_PREFIX = "/api/"
HOSTS = ("127.0.0.1", "localhost")
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """ASGI middleware that answers 403 to all that do not come from the page, and adds headers to all answers.

    Files of the page are at `/TOKEN/...`, so that the token is in the address that the user opens, and in those of its
    scripts. Requests to `/api/...` have it in a header, which other pages cannot send without asking first.

    Parameters
    ----------
    app : ASGI application
    token : str
    port : int
        The port that the server listens on.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode("ascii")
        self._hosts = tuple(f"{name}:{port}" for name in HOSTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        refused = self._refused(scope)
        if refused:
            await PlainTextResponse(refused, status_code=403)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refused(self, scope: Scope) -> str:
        """Return why a request is refused; "" if it is not."""
        if scope["type"] != "http":
            return "Only HTTP is supported."
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return "This server answers only to 127.0.0.1 and localhost."
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return "This server answers only to its own page."
        path = scope["path"]
        given = headers.get(TOKEN_HEADER, "") if path.startswith(API_PREFIX) else path[1:].partition("/")[0]
        if not hmac.compare_digest(given.encode("utf-8"), self._token):
            return "The token is missing or wrong: open the address that tabgnm printed when it started."
        return ""
