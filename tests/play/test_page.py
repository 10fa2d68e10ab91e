"""The page in a real browser, with a real server that trains."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from tabgnm.play.learner import Learner
from tabgnm.play.points import from_table
from tabgnm.play.serving import Playground
from tabgnm.play.settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SECONDS = 60.0


@pytest.fixture
def playground() -> Iterator[Playground]:
    with Playground(settings=Settings(learning_rate=0.03)) as running:
        yield running


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait for a condition. Playwright's own way evaluates text, which the policy of the page forbids."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        page.wait_for_timeout(30)


def number(page: Page, name: str) -> float:
    """The number that an element begins with."""
    return float(page.locator(f"#{name}").inner_text().split()[0])


def open_page(page: Page, playground: Playground) -> None:
    page.goto(playground.url)
    page.locator(".node.output").first.wait_for()


def place_within(page: Page, inner: str, outer: str) -> list[float]:
    """Where an element begins and its size. Not relative to the window: Playwright scrolls to what it points at."""
    own, around = page.locator(inner).bounding_box(), page.locator(outer).bounding_box()
    assert own is not None and around is not None
    return [own["x"] - around["x"], own["y"] - around["y"], own["width"], own["height"]]


def move(page: Page, slider: str, n_steps: int) -> None:
    page.locator(f"#{slider}").focus()
    for _ in range(abs(n_steps)):
        page.keyboard.press("ArrowRight" if n_steps > 0 else "ArrowLeft")


def test_a_machine_learns_xor_and_loses_the_edges_that_it_does_not_need(page: Page, playground: Playground) -> None:
    open_page(page, playground)
    all_edges = number(page, "edges")
    assert all_edges == 45
    page.locator("#play").click()
    move(page, "penalty", 8)  # while frames with earlier values arrive
    wait_until(page, lambda: playground.session.settings.penalty == 0.5)
    wait_until(page, lambda: page.locator("label[for=penalty] output").inner_text() == "0.5")
    wait_until(page, lambda: number(page, "accuracy") >= 90 and number(page, "edges") <= 30)
    n_drawn = page.locator(".node.hidden").count
    wait_until(
        page, lambda: n_drawn() <= number(page, "edges") / 2
    )  # nodes without edges vanish, after they have faded
    assert number(page, "train-loss") < 0.4


def test_keys_play_pause_step_and_reset(page: Page, playground: Playground) -> None:
    open_page(page, playground)
    page.keyboard.press(" ")
    wait_until(page, lambda: number(page, "epoch") >= 3)
    assert page.locator("#play").get_attribute("aria-label") == "Pause"
    page.keyboard.press(" ")
    page.locator("#play[aria-label=Play]").wait_for()
    paused = number(page, "epoch")
    page.wait_for_timeout(300)  # nine epochs, if it went on
    assert number(page, "epoch") == paused
    page.keyboard.press("s")
    wait_until(page, lambda: number(page, "epoch") == paused + 1)
    page.wait_for_timeout(200)
    assert number(page, "epoch") == paused + 1
    loss = number(page, "test-loss")
    page.keyboard.press("r")
    wait_until(page, lambda: number(page, "epoch") == 0)
    assert number(page, "test-loss") > loss


def test_space_plays_after_a_click_on_another_button(page: Page, playground: Playground) -> None:
    open_page(page, playground)
    page.get_by_role("button", name="Moons").click()
    page.locator("[data-name=moons][aria-pressed=true]").wait_for()
    page.keyboard.press(" ")
    page.locator("#play[aria-label=Pause]").wait_for()


def test_a_machine_without_edges_says_what_to_do(page: Page, playground: Playground) -> None:
    open_page(page, playground)
    move(page, "penalty", 10)
    move(page, "learning_rate", 10)
    page.keyboard.press(" ")
    page.get_by_text("No edge is left").wait_for(timeout=SECONDS * 1000)
    assert number(page, "edges") == 0


def test_a_slider_takes_effect_at_once_or_builds_a_new_machine(page: Page, playground: Playground) -> None:
    open_page(page, playground)
    page.locator("#step").click()
    wait_until(page, lambda: number(page, "epoch") == 1)
    move(page, "learning_rate", 1)
    move(page, "penalty", 3)
    wait_until(page, lambda: playground.session.settings.penalty == 0.05)
    wait_until(page, lambda: page.locator("label[for=penalty] output").inner_text() == "0.05")
    assert number(page, "epoch") == 1
    move(page, "n_layers", 1)
    wait_until(page, lambda: page.locator("#possible-edges").inner_text().strip() == "of 177")  # 11·3 + 11·12 + 12
    assert number(page, "epoch") == 0
    page.get_by_role("button", name="Moons").click()
    page.locator("[data-name=moons][aria-pressed=true]").wait_for()


def test_pointing_at_a_node_shows_what_it_computes(page: Page, playground: Playground) -> None:
    page.emulate_media(reduced_motion="reduce")
    open_page(page, playground)
    predictions = page.locator("#plane").screenshot()
    page.locator(".node.hidden").nth(2).hover()
    assert page.locator("#plane-title").inner_text() == "What this node computes"
    assert page.locator("#caption").inner_text().startswith("n0 = relu(")
    wait_until(page, lambda: page.locator("#plane").screenshot() != predictions)
    page.mouse.move(0, 0)
    assert page.locator("#plane-title").inner_text() == "Prediction"
    page.locator(".node.input").first.focus()  # and by the keyboard
    assert page.locator("#caption").inner_text().startswith("x₁: an input")


def evaluated(formula: str, values: dict[str, float]) -> float:
    """The value of a formula of the page, such as "n0 = relu(0.2·length − 3·width + 1)"."""
    text = formula.partition("=")[2].strip().replace(",", "").replace("−", "-").replace("·", "*")
    for name, value in values.items():
        text = text.replace(name, f"({value})")
    return float(eval(text, {"relu": lambda value: max(0.0, value)}))  # of our own page


def test_formulas_are_in_the_units_of_the_axes(page: Page) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 2)) * [5, 0.01] + [2000, 3]  # years, and a share
    data = pd.DataFrame(rows, columns=["year", "share"]).assign(kind=np.repeat(["ash", "beech"], 100))
    points = from_table(data, None, "kind")
    with Playground(points) as playground:
        open_page(page, playground)
        chosen = playground.session.settings
        machine = Learner(points, chosen.n_nodes, chosen.n_layers, seed=0).machine()  # that of the first frame
        hidden = {unit.node: place for place, unit in enumerate(machine.units, start=2) if unit.node.startswith("n")}
        for own in page.locator(".node.hidden").all():
            own.focus()
            formula = page.locator("#caption").inner_text()
            place = hidden.get(formula.split()[0])
            if place is None:  # an input node in a later layer
                continue
            for raw, expected in zip(
                rows[:20], machine.values((rows[:20] - points.center) / points.scale), strict=True
            ):
                found = evaluated(formula, dict(zip(("year", "share"), raw, strict=True)))
                assert found == pytest.approx(expected[place], abs=0.02), formula
        assert len(hidden) >= 3


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_fits_its_window_and_explains_every_control(page: Page, playground: Playground, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    open_page(page, playground)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for own in page.locator("#machine, #plane, #chart, #sliders, #play").all():
        box = own.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
    sliders = page.locator("input[type=range]").all()
    assert len(sliders) == 5
    for slider in sliders:
        assert page.locator(f"#{slider.get_attribute('aria-describedby')}").inner_text() == slider.get_attribute(
            "title"
        )
    for button in page.locator("main button").all():
        assert button.get_attribute("title") or button.get_attribute("aria-label")


def test_names_of_inputs_have_room_between_the_nodes_of_a_narrow_page(page: Page, playground: Playground) -> None:
    page.set_viewport_size({"width": 380, "height": 900})
    page.emulate_media(reduced_motion="reduce")
    open_page(page, playground)
    first, second = (own.bounding_box() for own in page.locator(".node.input").all())
    assert first is not None and second is not None
    assert second["y"] - (first["y"] + first["height"]) >= 20


def test_a_hidden_page_does_not_listen(page: Page, playground: Playground) -> None:
    open_page(page, playground)
    assert playground.session.n_listeners == 1
    for hidden, n_listeners in ((True, 0), (False, 1)):
        page.evaluate(
            "value => { Object.defineProperty(document, 'hidden', { value, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            hidden,
        )
        wait_until(page, lambda expected=n_listeners: playground.session.n_listeners == expected)  # type: ignore[misc]
    page.keyboard.press("s")
    wait_until(page, lambda: number(page, "epoch") == 1)


def test_the_page_does_not_grow_on_a_screen_with_many_pixels(browser: Browser, playground: Playground) -> None:
    heights = []
    for ratio in (1, 3):
        context = browser.new_context(device_scale_factor=ratio, viewport={"width": 1400, "height": 900})
        page = context.new_page()
        page.set_default_timeout(SECONDS * 1000)
        open_page(page, playground)
        for _ in range(2):  # a canvas that grows with its own size would grow on
            page.wait_for_timeout(150)
            heights.append(page.evaluate("document.documentElement.scrollHeight"))
        context.close()
    assert len(set(heights)) == 1 and heights[0] < 2 * 900


def test_the_invitation_to_play_does_not_move_for_those_who_prefer_less_motion(
    page: Page, playground: Playground
) -> None:
    open_page(page, playground)
    name = "getComputedStyle(document.getElementById('play')).animationName"
    assert page.evaluate(name) == "invite"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(name) == "none"


def test_two_columns_of_a_table_are_learned_with_their_names_and_classes(page: Page) -> None:
    rows = np.random.default_rng(0).normal(size=(90, 2)) + np.repeat([[0, 0], [4, 0], [0, 4]], 30, axis=0)
    data = pd.DataFrame(rows, columns=["length", "width"]).assign(kind=np.repeat(["ash", "beech", "<cedar>"], 30))
    with Playground(from_table(data, None, "kind")) as playground:
        open_page(page, playground)
        assert page.locator("#classes > span").all_inner_texts() == ["<cedar>", "ash", "beech"]
        assert page.locator(".node.output").count() == 3
        assert page.locator("#noise").is_disabled()
        page.locator(".node.input").last.focus()
        assert page.locator("#caption").inner_text().startswith("width: an input")
        page.keyboard.press(" ")
        wait_until(page, lambda: number(page, "accuracy") >= 85)


def test_long_names_stay_within_their_cards_and_do_not_move_the_plane(page: Page) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    names = [f"a column with a very long name, number {place}" for place in range(2)]
    data = pd.DataFrame(rows, columns=names).assign(
        kind=np.repeat([f"a class with a long name, {k}" for k in "abc"], 20)
    )
    page.set_viewport_size({"width": 1400, "height": 900})
    page.emulate_media(reduced_motion="reduce")  # nodes stay below the mouse
    with Playground(from_table(data, None, "kind")) as playground:
        open_page(page, playground)
        card = page.locator("section.plane").bounding_box()
        assert card is not None
        for own in page.locator("#classes > span").all():
            box = own.bounding_box()
            assert box is not None and box["x"] + box["width"] <= card["x"] + card["width"]
        before = place_within(page, "#plane", "body")
        page.locator(".node.hidden").first.hover()
        assert page.locator("#plane-title").inner_text() == "What this node computes"
        assert place_within(page, "#plane", "body") == before


def test_the_page_says_that_the_server_has_ended(page: Page) -> None:
    with Playground() as playground:
        open_page(page, playground)
    page.get_by_text("The server has stopped").wait_for()
    page.goto("about:blank")  # before it tries to connect again, which the console would report
