"""Starting and stopping the playground."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tabgnm._extras import import_extra

if TYPE_CHECKING:
    from tabgnm.play.points import Points
    from tabgnm.play.settings import Settings

HOST = "127.0.0.1"  # never another address: whoever reaches the server can use this computer's processor
_PURPOSE = "the playground"
_CONNECTIONS = 32


class Playground:
    """A server in a thread; use it in a `with` statement.

    Parameters
    ----------
    own : Points or None
        The user's data, shown first.
    port : int
        0 for a free one.
    settings : Settings or None, default=None
        What is shown first; None for the defaults.

    Attributes
    ----------
    url : str
        The address of the page, with the token without which the server answers nothing.
    session : Session
    """

    def __init__(self, own: Points | None = None, port: int = 0, settings: Settings | None = None) -> None:
        uvicorn = import_extra("uvicorn", "play", _PURPOSE)
        import_extra("starlette", "play", _PURPOSE)
        from tabgnm.play.app import application
        from tabgnm.play.session import Session
        from tabgnm.play.settings import OWN_DATA, Settings

        self._socket = _bound(port)
        number = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(24)
        self.url = f"http://{HOST}:{number}/{token}/"
        self.session = Session(own, settings or (Settings(dataset=OWN_DATA) if own else Settings()))
        config = uvicorn.Config(
            application(self.session, token, number),
            access_log=False,  # it would show the token
            http="h11",
            lifespan="off",
            limit_concurrency=_CONNECTIONS,
            log_level="error",
            loop="asyncio",
            timeout_graceful_shutdown=2,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tabgnm-play-server", daemon=True)

    def _run(self) -> None:
        try:
            self._server.run([self._socket])
        finally:
            self._ended.set()

    def __enter__(self) -> Playground:
        self.session.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.session.close()  # first: the server waits for streams to end
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def wait(self) -> None:
        """Return when the server has ended."""
        # Not Thread.join, which some versions of Python cannot call again once Ctrl-C has interrupted it; and with a
        # limit, without which Ctrl-C does not interrupt it on Windows.
        while not self._ended.wait(0.5):
            pass


def _bound(port: int) -> socket.socket:
    """Return a socket that is bound to a port of this computer alone."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise ValueError(f"port={port!r} is not valid; expected an integer from 1 to 65535, or 0 for a free port")
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # a port that was just given up can be used again; on Windows this would share it
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        bound.listen()
    except OSError as error:
        bound.close()
        raise OSError(
            error.errno,
            f"port {port} of {HOST} cannot be used ({error.strerror}); use another port, or 0 for a free one",
        ) from None
    return bound


def serve(
    data: Any = None,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    port: int = 0,
    open_browser: bool = True,
) -> None:
    """Serve the playground on this computer until Ctrl-C, and print its address.

    Only this computer can reach the page, and only with the token in the printed address. It needs the extra "play".

    Parameters
    ----------
    data : DataFrame or None, default=None
        A table to learn from, besides the generated data sets. At most 1,000 of its rows are used.
    columns : sequence of two str or None, default=None
        Two numeric columns of `data`; None for the first two.
    target : str or None, default=None
        The column of `data` with the classes, 2 to 6 of them.
    port : int, default=0
        0 for a free one.
    open_browser : bool, default=True
        Whether to open the page in the default browser.

    Raises
    ------
    MissingExtraError
        If starlette or uvicorn is not installed.
    ValueError
        If the columns or the target cannot be used.
    OSError
        If the port is taken.
    """
    from rich.console import Console

    own = None
    if data is not None:
        from tabgnm.play.points import from_table

        own = from_table(data, columns, target)
    elif columns is not None or target is not None:
        raise ValueError("columns and target need a table; pass data, or omit them")
    with Playground(own, port) as playground:
        # The address is the only way in, so it is always shown.
        Console().print(
            f"Playground: {playground.url}\nPress Ctrl-C to stop.", highlight=False, markup=False, soft_wrap=True
        )
        if open_browser:
            # In a thread: where there is no window system, a browser in the terminal would not return.
            threading.Thread(target=webbrowser.open, args=(playground.url,), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            playground.wait()
