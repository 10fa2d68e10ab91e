"""Starting and ending the server, and when its thread works."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tabgnm._extras import MissingExtraError
from tabgnm.play import serve, session
from tabgnm.play.serving import Playground
from tabgnm.play.settings import Settings
from tests.play.requests import Client

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal, and the browser is a shell script")
def test_the_command_prints_its_address_opens_it_and_ends_at_ctrl_c_even_while_a_page_listens(tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{opened}.part" && mv "{opened}.part" "{opened}"\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    process = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
         "from tabgnm.play import serve; serve()"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"BROWSER": str(browser), "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.fullmatch(r"Playground: (http://127\.0\.0\.1:(\d+)/([\w-]{32})/)\n", line)
        assert address is not None, line
        assert process.stdout.readline() == "Press Ctrl-C to stop.\n"
        with urllib.request.urlopen(address[1], timeout=30) as page:
            assert b"tabgnm playground" in page.read()
        wait_for(opened.exists)
        assert opened.read_text() == address[1]
        request = urllib.request.Request(address[1].replace(f"{address[3]}/", "api/events"))
        request.add_header("X-Tabgnm-Token", address[3])
        with urllib.request.urlopen(request, timeout=30) as events:
            assert events.readline() == b"event: welcome\n"
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=180)
        assert (process.returncode, rest, errors) == (0, "", "")
    finally:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180  # a busy machine takes long to import torch
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_port_that_is_taken_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 cannot be used .*use another port, or 0"):
            serve(port=port, open_browser=False)


@pytest.mark.parametrize("port", [-1, 65536, 8.0, True, "80"])
def test_a_port_that_is_none_is_a_clear_error(port: object) -> None:
    with pytest.raises(ValueError, match=r"port=.* expected an integer from 1 to 65535, or 0"):
        serve(port=port, open_browser=False)  # type: ignore[arg-type]


def test_columns_without_a_table_are_a_clear_error() -> None:
    with pytest.raises(ValueError, match="columns and target need a table"):
        serve(target="class", open_browser=False)
    with pytest.raises(ValueError, match="'b' is not a column"):
        serve(pd.DataFrame({"a": [1.0]}), target="b", open_browser=False)


@pytest.mark.parametrize("module", ["uvicorn", "starlette"])
def test_a_missing_package_is_an_error_that_names_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"the playground needs {module}.*tabgnm\[play\]"):
        serve(open_browser=False)


def test_a_port_can_be_used_again_once_the_server_has_ended() -> None:
    with Playground() as first:
        client = Client(first)
        client.frame()
    with pytest.raises(OSError, match="refused"):
        client.frame()
    with Playground(port=client.port) as second:
        assert Client(second).token != client.token
        Client(second).frame()


def test_training_stops_when_nobody_watches_and_goes_on_when_somebody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "UNWATCHED_SECONDS", 0.1)
    with Playground() as playground:
        client = Client(playground)
        with client.events() as events:
            client.act("play")
            assert next(content for name, content in events if name == "frame" and content["epoch"] >= 2)

        def is_still() -> bool:
            before = playground.session._frame_event
            time.sleep(0.4)  # six frames, if it went on
            return playground.session._frame_event is before

        wait_for(is_still)
        assert playground.session.n_listeners == 0
        with client.events() as events:
            frames = (content for name, content in events if name == "frame")
            stopped = next(frames)
            assert stopped["running"] is True  # suspended, not paused
            assert next(frame for frame in frames if frame["epoch"] > stopped["epoch"])


def test_pages_share_one_session() -> None:
    with Playground() as playground:
        client = Client(playground)
        with client.events() as first, client.events() as second:
            client.send("POST", "/api/settings", {"dataset": "circles", "n_nodes": 6})
            for events in (first, second):
                frames = (content for name, content in events if name == "frame")
                assert next(own for own in frames if own["settings"]["dataset"] == "circles")["n_possible_edges"] == 21


def test_a_machine_that_diverges_starts_again_with_a_notice() -> None:
    with Playground(settings=Settings(learning_rate=1e30)) as playground:
        client = Client(playground)
        with client.events() as events:
            client.act("play")
            frame = next(content for name, content in events if name == "frame" and content["notice"])
        assert "Lower the learning rate" in frame["notice"]
        assert frame["epoch"] == 0 and frame["running"] is False
        client.send("POST", "/api/settings", {"learning_rate": 0.01})
        client.act("step")
        wait_for(lambda: client.frame()["epoch"] == 1)
        assert client.frame()["notice"] == ""
