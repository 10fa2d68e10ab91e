"""Reports in a real browser; the fixture `page` also fails for errors in the console and for requests to the outside."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.report.examples import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Page

SECTIONS = ["overview", "scores", "pack", "predictions", "columns", "rows", "machine", "what-if", "use"]


def opened(page: Page, path: Path, width: int = 1400) -> Page:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(path.as_uri())
    return page


def test_a_report_opens_from_disk_and_has_all_sections_in_order(page: Page, written: Path) -> None:
    opened(page, written)
    found = page.eval_on_selector_all("main > header, main > section", "own => own.map(one => one.id)")
    assert found == SECTIONS
    links = page.eval_on_selector_all(".contents a", "own => own.map(one => one.hash)")
    assert links == [f"#{own}" for own in SECTIONS]


@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("report", ["written", "hostile"])
def test_no_page_is_wider_than_the_window(page: Page, report: str, width: int, request: pytest.FixtureRequest) -> None:
    opened(page, request.getfixturevalue(report), width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_theme_follows_the_system_and_can_be_changed_with_the_keyboard(page: Page, written: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    opened(page, written)
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(background)
    assert light != dark
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.evaluate(background) == light
    assert page.get_attribute("#theme", "aria-pressed") == "false"
    page.keyboard.press("Enter")
    assert page.evaluate(background) == dark


def test_names_and_labels_of_the_user_stay_text(page: Page, hostile: Path) -> None:
    page.on("dialog", lambda dialog: pytest.fail(f"a script of the data ran: {dialog.message}"))
    opened(page, hostile)
    assert page.text_content("h1") == HOSTILE
    assert page.title() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.locator(f'[title="{HOSTILE}"]').count() > 0
    assert "alert(1)" not in "".join(page.eval_on_selector_all("script:not([type])", "own => own.map(o => o.text)"))


def test_long_names_are_shortened_and_complete_in_a_title(page: Page, hostile: Path) -> None:
    opened(page, hostile)
    full = " ".join(("a long name " * 30).split())
    shown = page.locator(f'#columns [title="{full}"]').first
    assert len(shown.inner_text()) < 40


def test_every_chart_has_a_name_and_a_title(page: Page, written: Path) -> None:
    opened(page, written)
    unnamed = "own => own.filter(one => !one.getAttribute('aria-label') || !one.querySelector('title')).length"
    assert page.locator("svg.chart").count() > 10
    assert page.eval_on_selector_all("svg.chart", unnamed) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_is_not_blank(page: Page, written: Path, scheme: str) -> None:
    image = pytest.importorskip("PIL.Image")
    page.emulate_media(color_scheme=scheme)
    opened(page, written)
    picture = image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    counts = picture.getcolors(maxcolors=2**24)
    assert len(counts) > 500
    assert max(n for n, _ in counts) < 0.9 * picture.width * picture.height


def test_code_can_be_copied_with_the_keyboard(page: Page, written: Path) -> None:
    opened(page, written)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.locator("button.copy").first
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('button.copy').textContent === 'Copied'")
    assert "tabgnm.load" in page.evaluate("navigator.clipboard.readText()")


def test_details_are_open_and_controls_are_hidden_on_paper(page: Page, written: Path) -> None:
    opened(page, written)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.eval_on_selector_all("details", "own => own.every(one => one.open)")
    assert not page.locator("#theme").is_visible()
    assert not page.locator(".contents").is_visible()


@pytest.mark.parametrize("width", [380, 1300])
def test_code_is_not_cut_off(page: Page, written: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(written.as_uri())
    hidden = page.locator("#use pre").evaluate_all("(all) => all.map((own) => own.scrollWidth - own.clientWidth)")
    assert len(hidden) >= 3 and max(hidden) <= 0


def test_no_number_of_a_table_is_broken_into_two_lines(page: Page, written: Path) -> None:
    opened(page, written, 360)
    broken = """own => own.filter(one => one.getClientRects().length && one.textContent.trim()
        && one.offsetHeight > 1.9 * parseFloat(getComputedStyle(one).lineHeight) + 16).map(one => one.textContent)"""
    assert page.eval_on_selector_all("table.plain td.number", broken) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_on_the_confusion_matrix_has_enough_contrast(page: Page, written: Path, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    opened(page, written)
    # A canvas turns any colour into numbers of red, green and blue.
    contrasts = page.evaluate("""() => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
        const context = canvas.getContext("2d", { willReadFrequently: true });
        const luminance = (colour) => {
            context.fillStyle = colour;
            context.fillRect(0, 0, 1, 1);
            const part = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
            const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
            return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
        };
        const fills = [...document.querySelectorAll(".cell")].map((cell) => luminance(getComputedStyle(cell).fill));
        const texts = [...document.querySelectorAll(".cell ~ text")].map((own) => luminance(getComputedStyle(own).fill));
        return fills.flatMap((fill) => texts.map((own) => (Math.max(fill, own) + 0.05) / (Math.min(fill, own) + 0.05)));
    }""")
    assert len(contrasts) >= 4
    assert min(contrasts) >= 4.5


def test_nothing_is_cut_off_on_paper(page: Page, written: Path) -> None:
    opened(page, written, 720)  # about the width of a page of A4
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    too_wide = "own => own.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent.trim().slice(0, 40))"
    assert page.eval_on_selector_all("#main > section:not(#machine):not(#what-if) :is(.scroll, pre)", too_wide) == []
