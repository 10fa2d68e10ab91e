"""The documentation site: built with warnings as errors, complete, linked, and without anything from other hosts."""

import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

import tabgnm
from tests.test_package import SUBPACKAGES

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("mkdocstrings", reason="needs the extra docs")

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
ESTIMATORS = ("GNMClassifier", "GNMRegressor", "MLPClassifier", "MLPRegressor", "FleetSearchCV")
# Tags whose address a browser loads by itself, other than <link>.
LOADING = {"script", "img", "iframe", "source", "video", "audio", "embed", "object", "track", "input"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "preconnect", "dns-prefetch", "manifest"}


class Parsed(HTMLParser):
    """What tests need of a page: its anchors, where it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value for name, value in attrs if value is not None}
        self.ids |= {own[name] for name in ("id", "name") if name in own}
        if tag == "a" and "href" in own:
            self.links.append(own["href"])
        if tag == "link" and set(own.get("rel", "").split()) & LOADED_LINKS:
            self.loaded.append(own["href"])
        if tag in LOADING:
            self.loaded += [own[name] for name in ("src", "data", "poster", "srcset") if name in own]
        self.loaded += re.findall(r"url\(([^)]+)\)", own.get("style", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Parsed]:
    return {path: Parsed(path) for path in sorted(site.rglob("*.html"))}


def is_outside(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in ("http", "https", "ws", "wss")


def test_every_link_leads_to_a_page_and_an_anchor(site: Path, pages: dict[Path, Parsed]) -> None:
    broken = []
    for path, page in pages.items():
        for link in {*page.links, *page.loaded}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            start = site if parts.path.startswith("/") else path.parent
            target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            known = not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].ids
            if not target.is_file() or not known:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, Parsed]) -> None:
    outside = {link for page in pages.values() for link in page.loaded if is_outside(link)}
    for style in site.rglob("*.css"):
        text = style.read_text()
        addresses = re.findall(r"url\(['\"]?([^'\")]+)", text) + re.findall(r"@import\s+['\"]([^'\"]+)", text)
        outside |= {address for address in addresses if is_outside(address)}
    for picture in site.rglob("*.svg"):
        outside |= set(re.findall(r"(?:xlink:)?href=\"(https?:[^\"]+)", picture.read_text()))
    assert not outside


def test_every_page_is_in_the_navigation(site: Path, pages: dict[Path, Parsed]) -> None:
    first = site / "index.html"
    reachable = {(site / urlsplit(link).path).resolve() for link in pages[first].links if not urlsplit(link).scheme}
    assert set(pages) - {site / "404.html", first} <= reachable


@pytest.mark.parametrize("name", [name for name in SUBPACKAGES if name != "estimators"])
def test_the_reference_has_every_public_name_of_a_subpackage(name: str, site: Path, pages: dict[Path, Parsed]) -> None:
    path = site / "api" / f"{name}.html"
    assert path.exists(), (
        f"add docs/api/{name}.md, like docs/api/nn.md, and list it in mkdocs.yml and docs/api/index.md"
    )
    # A function that has the name of its module is taken for the module, so its page names both.
    twice = {own: f"tabgnm.{name}.{own}.{own}" for own in getattr(tabgnm, name).__all__}
    missing = {own for own in twice if not {f"tabgnm.{name}.{own}", twice[own]} & pages[path].ids}
    assert not missing


def test_the_reference_has_the_estimators_and_the_same_names_under_their_subpackage(pages: dict[Path, Parsed]) -> None:
    ids = set().union(*(page.ids for page in pages.values()))
    names = {name for name in tabgnm.__all__ if name not in (*SUBPACKAGES, "__version__")}
    assert {f"tabgnm.{name}" for name in names} <= ids
    assert set(tabgnm.estimators.__all__) == names
    assert all(f"`tabgnm.{name}`" in (DOCS / "api" / "index.md").read_text() for name in names)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_reference_describes_every_parameter_of_an_estimator(name: str, site: Path) -> None:
    path = site / "api" / f"{re.sub('(?<=[a-z])(?=[A-Z])|(?<=GNM|MLP)(?=[CR])', '-', name).lower()}.html"
    described = set(
        re.findall(r"<b><code>(\w+)</code></b>|<code>(\w+)</code>|title=\"[\w.]*\((\w+)\)", path.read_text())
    )
    names = {part for match in described for part in match if part}
    parameters = set(getattr(tabgnm, name)._get_param_names())
    assert parameters
    assert not parameters - names


def test_no_placeholder_is_left(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert not re.search(r"\{parameters\}|\{\{|--8&lt;--|--8<--", path.read_text()), path


def test_figures_of_the_first_pages_stand_where_they_were_measured() -> None:
    measured = "".join((DOCS / name).read_text() for name in ("recipe.md", "small-machines.md", "performance.md"))
    for row in re.findall(r"^\| (?:all|the) \d.*$", (DOCS / "accuracy.md").read_text(), re.MULTILINE):
        assert row in measured
    for name in ("index.md", "accuracy.md", "comparison.md", "images/ranks.svg"):
        text = re.sub(r"```.*?```|<rect[^>]*>|\(https?:[^)]*\)", "", (DOCS / name).read_text(), flags=re.DOTALL)
        figures = set(re.findall(r"\b\d+\.\d\d\b", text))
        assert figures, name
        assert {figure for figure in figures if figure not in measured} == set(), name


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("width", [1400, 390])
def test_the_first_page_fits_the_screen_and_shows_its_pictures(address: str, page: "Page", width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{address}/index.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('img').forEach(image => image.scrollIntoView())")
    page.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert page.locator("article img").count() == 2


def search_results(page: "Page", text: str) -> str:
    """Type a text until the index is loaded and there are results."""
    for _ in range(20):
        page.locator(".md-search__input").fill("")
        page.locator(".md-search__input").press_sequentially(text)
        page.wait_for_timeout(500)
        if page.locator(".md-search-result__item").count():
            break
    return page.locator(".md-search-result__list").inner_text()


def test_the_search_finds_a_method_of_an_estimator(address: str, page: "Page") -> None:
    page.goto(f"{address}/index.html")
    assert "predict_interval" in search_results(page, "predict_interval")


def test_the_search_works_in_pages_that_are_opened_from_a_disk(site: Path, page: "Page") -> None:
    page.goto((site / "tutorials" / "first-table.html").as_uri())  # the fixture refuses requests to other hosts
    assert "predict_interval" in search_results(page, "predict_interval")
