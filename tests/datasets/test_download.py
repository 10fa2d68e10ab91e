import gzip
import hashlib
import logging
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tabgnm.datasets import DatasetContentError, DatasetUnavailableError, fetch_dataset, load_dataset
from tabgnm.datasets.download import RETRIES, download
from tabgnm.datasets.registry import REGISTRY
from tabgnm.datasets.spec import Archive
from tests.datasets.originals import ORIGINALS, small_spec
from tests.datasets.server import Answer, Server

BODY = ORIGINALS["car"].archive()
MAX_BYTES = 100_000


def car_archive(url: str, sha256: str | None = None) -> Archive:
    source = REGISTRY["car"].source
    assert isinstance(source, Archive)
    return replace(source, url=url, sha256=sha256)


def get(url: str, folder: Path, sha256: str | None = None, **options: float) -> Path:
    """Download into a folder, as if the user were to be told of another place."""
    download(car_archive(url, sha256), folder / "car.zip", place=Path("place/car.zip"), max_bytes=MAX_BYTES, **options)  # type: ignore[arg-type]
    return folder / "car.zip"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_download_arrives_whole_and_in_silence(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = get(server.serve("car", Answer(BODY)), tmp_path / "new", hashlib.sha256(BODY).hexdigest())
    assert path.read_bytes() == BODY
    assert files(tmp_path) == ["car.zip"]
    assert capfd.readouterr() == ("", "")


def test_the_logger_of_pooch_is_left_as_it_was(server: Server, tmp_path: Path) -> None:
    import pooch

    pooch.get_logger().setLevel(logging.DEBUG)
    try:
        get(server.serve("car", Answer(BODY)), tmp_path)
        assert pooch.get_logger().level == logging.DEBUG
    finally:
        pooch.get_logger().setLevel(logging.INFO)


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ({"truncate_at": 40}, {}),
        ({"status": 503}, {}),
        ({"status": 429}, {}),
        # Long enough for the last, complete answer on a busy machine.
        ({"stall_at": 40}, {"timeout": 2.0}),
    ],
)
def test_a_passing_fault_is_overcome(
    fault: dict[str, int], options: dict[str, float], server: Server, tmp_path: Path, waits: list[float]
) -> None:
    url = server.serve("car", Answer(BODY, broken_attempts=2, **fault))
    assert get(url, tmp_path, **options).read_bytes() == BODY
    assert len(server.requests) == 3
    assert waits == [1, 2]


@pytest.mark.parametrize(
    ("fault", "options", "reason"),
    [
        ({"truncate_at": 40}, {}, "IncompleteRead|the connection ended after 40"),
        ({"status": 500}, {}, "500 Server Error"),
        ({"stall_at": 0}, {"timeout": 0.2}, "the server did not answer in time|timed out"),
        ({"stall_at": 40}, {"timeout": 0.2}, "the server did not answer in time|timed out"),
    ],
)
def test_a_lasting_fault_is_told_and_leaves_nothing_behind(
    fault: dict[str, int], options: dict[str, float], reason: str, server: Server, tmp_path: Path
) -> None:
    url = server.serve("car", Answer(BODY, **fault))
    with pytest.raises(DatasetUnavailableError, match=reason) as caught:
        get(url, tmp_path, **options)
    assert str(caught.value).startswith(f"{url} could not be downloaded")
    assert str(caught.value).endswith("save that file as place/car.zip")
    assert len(server.requests) == 1 + RETRIES
    assert files(tmp_path) == []


def test_a_wrong_checksum_is_refused_and_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DatasetUnavailableError, match=r"(?s)does not match the known hash: expected 0+ but got"):
        get(server.serve("car", Answer(BODY)), tmp_path, sha256="0" * 64)
    assert files(tmp_path) == []


def test_what_is_not_there_is_asked_for_once_only(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DatasetUnavailableError, match="404 Not Found"):
        get(f"{server.url}/gone", tmp_path)
    assert len(server.requests) == 1


def test_a_server_that_refuses_connections_is_told(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DatasetUnavailableError, match="Connection refused"):
        get(f"http://127.0.0.1:{port}/car.zip", tmp_path)


def test_without_a_network_the_error_says_which_file_to_put_where(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(DatasetUnavailableError) as caught:
        load_dataset("car")
    assert str(caught.value) == (
        "https://archive.ics.uci.edu/static/public/19/car+evaluation.zip could not be downloaded "
        "([Errno -3] Temporary failure in name resolution). "
        f"To continue without the network, save that file as {cache / 'archives' / 'car+evaluation.zip'}"
    )
    assert isinstance(caught.value, OSError)


def test_a_name_that_leads_nowhere_is_asked_for_once_only(
    tmp_path: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def no_name(host: str, *_: object, **__: object) -> None:
        asked.append(host)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_name)
    with pytest.raises(DatasetUnavailableError, match="Temporary failure in name resolution"):
        get("http://data.invalid/car.zip", tmp_path)
    assert asked == ["data.invalid"] and waits == []


def test_a_folder_that_cannot_be_written_is_told_before_the_download(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTRY, "car", small_spec("car", server.serve("car", Answer(BODY))))
    (tmp_path / "file").write_text("not a folder")
    expected = r"there is no writable folder for the download of .* pass one as data_home=, or set .*TABGNM_DATA"
    with pytest.raises(DatasetUnavailableError, match=expected):
        load_dataset("car", data_home=tmp_path / "file")

    def read_only(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")  # what a user who is not root gets

    monkeypatch.setattr(tempfile, "mkdtemp", read_only)
    with pytest.raises(DatasetUnavailableError, match=rf"Permission denied.*{expected[-40:]}"):
        load_dataset("car", data_home=tmp_path / "folder")
    assert server.requests == []


def test_many_may_load_the_same_data_set_at_once(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "car", small_spec("car", server.serve("car", Answer(BODY))))
    with ThreadPoolExecutor(8) as pool:
        targets = list(pool.map(lambda _: load_dataset("car").target.tolist(), range(24)))
    assert targets == [["unacc", "vgood"]] * 24
    assert files(cache) == ["car.csv.gz"]


def test_what_was_downloaded_and_is_not_the_data_set_is_not_kept(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.serve("page", Answer(b"<html>please log in</html>"))
    monkeypatch.setitem(REGISTRY, "car", small_spec("car", url))
    with pytest.raises(DatasetContentError, match="neither a zip nor a tar file"):
        load_dataset("car")
    assert files(cache) == []


def test_an_archive_with_too_few_rows_is_refused_and_verify_false_takes_it(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.serve("car", Answer(BODY))
    monkeypatch.setitem(REGISTRY, "car", replace(small_spec("car", url), n_samples=3))
    with pytest.raises(DatasetContentError, match=r"has 2 rows, but Car Evaluation has 3; .*verify=False"):
        load_dataset("car")
    assert files(cache) == []
    assert load_dataset("car", verify=False).checked == "nothing"
    with pytest.raises(DatasetContentError, match=r"car\.csv\.gz has 2 rows"):
        load_dataset("car")  # the cache does not make it any better


def test_a_known_checksum_is_asked_of_an_archive_that_the_user_put_there(cache: Path) -> None:
    mine = cache / "archives" / "cal_housing.tgz"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(ORIGINALS["california"].archive())
    with pytest.raises(DatasetContentError, match=r"its SHA-256 is [0-9a-f]{64}, expected aaa5c9a6"):
        load_dataset("california")
    assert mine.is_file()


def test_the_bytes_are_counted_as_they_come(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[tuple[int, int | None]] = []
    monkeypatch.setitem(REGISTRY, "car", small_spec("car", server.serve("car", Answer(BODY))))
    path = fetch_dataset("car", on_bytes=lambda received, total: counts.append((received, total)))
    assert path == cache / "car.csv.gz"
    assert counts[-1] == (len(BODY), len(BODY))


def test_a_body_that_never_ends_is_left_at_the_limit(server: Server, tmp_path: Path) -> None:
    counts: list[int] = []
    url = server.serve("car", Answer(b"x" * 10_000, endless=True))
    with pytest.raises(
        DatasetContentError,
        match=r"car has more than 100,000 bytes, but the archive of the data set has at most 100,000, .*save the right "
        r"file as place/car\.zip",
    ):
        download(
            car_archive(url),
            tmp_path / "car.zip",
            place=Path("place/car.zip"),
            max_bytes=MAX_BYTES,
            on_bytes=lambda received, _: counts.append(received),
        )
    assert max(counts) <= MAX_BYTES and server.requests == ["/car"]
    assert files(tmp_path) == []


def test_a_body_that_is_announced_as_too_large_is_not_read(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DatasetContentError, match="car has 200,000 bytes, but the archive of the data set has at most"):
        get(server.serve("car", Answer(b"x" * 200_000)), tmp_path)
    assert server.requests == ["/car"] and files(tmp_path) == []


def test_a_body_that_is_compressed_unasked_is_refused(server: Server, tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(2**20), mtime=0) * 80
    url = server.serve("car", Answer(bomb, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(DatasetUnavailableError, match="the server sends it compressed by 'gzip', although the request"):
        get(url, tmp_path)
    assert files(tmp_path) == []


def test_the_limit_of_a_download_is_that_of_the_data_set(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTRY, "car", small_spec("car", server.serve("car", Answer(b"x" * 10_000, endless=True))))
    n_bytes = REGISTRY["car"].limits.n_bytes
    with pytest.raises(DatasetContentError, match=f"the archive of the data set has at most {n_bytes:,}"):
        load_dataset("car")
    assert files(cache) == []
