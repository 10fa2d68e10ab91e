"""A real browser for tests of pages; where none is installed, these tests are skipped."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


# Of a module, not of the session: while Playwright runs, no test can start an event loop of its own.
@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium without a window, started once per module."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # --no-sandbox: the sandbox does not work for root, as whom CI runs.
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: "Browser") -> "Iterator[Page]":
    """A new page of its own, which may reach nothing but this machine and fails the test for any error in its console."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(30_000)  # machines that run tests may be busy
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    outside = [
        url
        for url in requests
        if not url.startswith(("file:", "data:", "blob:", "about:", "http://127.0.0.1", "ws://127.0.0.1"))
    ]
    assert not errors, errors
    assert not outside, outside
