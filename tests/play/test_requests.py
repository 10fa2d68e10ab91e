"""Who may talk to the server, and what it does with what it is sent."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.play import session
from tabgnm.play.app import LARGEST_BODY
from tabgnm.play.serving import Playground
from tabgnm.play.settings import ACTIONS, BOUNDS, BadMessage, Settings, parsed, parsed_action
from tests.play.requests import Client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Playground() as playground:
        yield Client(playground)


def is_alive(client: Client) -> bool:
    return client.send("POST", "/api/settings", {"penalty": 0.0}).status == 204


@pytest.mark.parametrize("path", ["/", "/index.html", "/app.js", "/wrong/", "/wrong/app.js", "//", "/favicon.ico"])
def test_a_page_without_the_token_in_its_address_is_refused(client: Client, path: str) -> None:
    assert client.send("GET", path).status == 403


@pytest.mark.parametrize("token", ["", "wrong", "é", None])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/action"), ("POST", "/api/settings"), ("GET", "/api/events")]
)
def test_a_message_without_the_token_in_its_header_is_refused(
    client: Client, token: str | None, method: str, path: str
) -> None:
    given_token = client.token[:-1] if token is None else token
    assert client.send(method, path, {"action": "play"}, {"X-Tabgnm-Token": given_token}).status == 403
    assert client.frame()["running"] is False


def test_the_token_in_the_address_of_a_message_does_not_count(client: Client) -> None:
    path = f"/api/action?token={client.token}"
    assert client.send("POST", path, {"action": "play"}, {"X-Tabgnm-Token": ""}).status == 403


def test_a_request_to_another_host_name_is_refused(client: Client) -> None:
    for host in (
        "evil.example",
        f"evil.example:{client.port}",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{client.port}",
        "",
    ):
        assert client.send("GET", f"/{client.token}/", headers={"Host": host}).status in (400, 403), host
    for host in (f"127.0.0.1:{client.port}", f"localhost:{client.port}"):
        assert client.send("GET", f"/{client.token}/", headers={"Host": host}).status == 200, host


def test_a_request_from_a_page_of_another_origin_is_refused(client: Client) -> None:
    for origin in (
        "http://evil.example",
        "null",
        f"https://127.0.0.1:{client.port}",
        f"http://localhost:{client.port}",
    ):
        assert client.send("POST", "/api/action", {"action": "pause"}, {"Origin": origin}).status == 403, origin
        assert client.send("GET", f"/{client.token}/", headers={"Origin": origin}).status == 403, origin
    own = {"Origin": f"http://127.0.0.1:{client.port}"}
    assert client.send("POST", "/api/action", {"action": "pause"}, own).status == 204


def test_every_answer_has_the_headers_that_confine_the_page(client: Client) -> None:
    answers = [
        client.send("GET", f"/{client.token}/"),
        client.send("GET", f"/{client.token}/app.js"),
        client.send("GET", f"/{client.token}/missing.js"),
        client.send("GET", "/"),
        client.send("OPTIONS", "/api/action"),
        client.send("POST", "/api/action", {"action": "jump"}),
    ]
    assert [answer.status for answer in answers] == [200, 200, 404, 403, 405, 400]
    for answer in answers:
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not [name for name in answer.headers if name.startswith("access-control") or name == "set-cookie"]


def test_no_file_but_those_of_the_page_can_be_had(client: Client) -> None:
    for name in ("../app.py", "%2e%2e/app.py", "..%2fapp.py", "%2fetc%2fpasswd", "app.py", "static/app.js"):
        assert client.send("GET", f"/{client.token}/{name}").status == 404, name


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is not an address of this computer")
def test_the_server_listens_on_one_address_of_this_computer_only(client: Client) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", client.port), timeout=5).close()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"n_nodes": NaN}', b'{"n_nodes": 1e999}', b'{"n_nodes": 7, "n_nodes": 8}']
    + [
        b"[" * 4000,
        b'{"dataset": ["xor"]}',
        b'{"dataset": "yours"}',
        b'{"own": 1}',
        b'{"n_nodes": 7.5}',
        b'{"n_nodes": true}',
    ]
    + [json.dumps({name: own.high * 1.01 + 1e-9}).encode() for name, own in BOUNDS.items()]
    + [json.dumps({name: own.low - 1e-9}).encode() for name, own in BOUNDS.items()],
)
def test_a_message_that_is_not_valid_is_answered_with_400_and_changes_nothing(client: Client, body: bytes) -> None:
    before = client.frame()["settings"]
    answer = client.send("POST", "/api/settings", body, raw=True)
    assert answer.status == 400
    assert b"Traceback" not in answer.body and json.loads(answer.body)["error"]
    assert client.send("POST", "/api/action", body, raw=True).status == 400
    assert client.frame()["settings"] == before


def test_a_message_that_is_too_large_is_answered_with_413(client: Client) -> None:
    large = b" " * (LARGEST_BODY + 1)
    assert client.send("POST", "/api/settings", large, raw=True).status == 413
    chunks = iter([large[:1000]] * 6)  # without a length
    assert client.send("POST", "/api/settings", chunks, raw=True).status == 413
    assert is_alive(client)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda own: st.lists(own, max_size=3) | st.dictionaries(st.text(max_size=8), own, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["dataset", *BOUNDS]) | st.text(max_size=8), json_values, max_size=4) | json_values
)
def test_settings_from_any_message_are_within_their_bounds(message: Any) -> None:
    try:
        settings = Settings().changed(message, has_own_data=False)
    except BadMessage:
        return
    assert settings.dataset in ("xor", "moons", "circles", "spiral")
    for name, own in BOUNDS.items():
        assert own.low <= getattr(settings, name) <= own.high


@given(st.binary(max_size=40) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_action_or_a_bad_message(body: bytes) -> None:
    try:
        action = parsed_action(parsed(body))
    except BadMessage:
        return
    assert action in ACTIONS


def test_the_defaults_are_within_their_own_bounds() -> None:
    for name, own in BOUNDS.items():
        assert own.low <= getattr(Settings(), name) <= own.high


def test_so_many_pages_can_be_open_and_a_closed_one_makes_room(client: Client) -> None:
    wait_for_room(client)
    streams = [client.events() for _ in range(session.MAX_LISTENERS)]
    for stream in streams:
        next(stream.__enter__())
    refused = client.send("GET", "/api/events")
    assert refused.status == 503 and b"too many tabs" in refused.body
    for stream in streams:
        stream.__exit__(None, None, None)
    wait_for_room(client)
    assert client.frame()["epoch"] == 0


def wait_for_room(client: Client) -> None:
    deadline = time.monotonic() + 60
    while client.session.n_listeners:
        assert time.monotonic() < deadline
        time.sleep(0.02)
