"""The view Geometry on the real page: its numbers, turning and moving by pointer and by keys, the filter."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.attention import embed, projections
from regard.lab.api.geometry import trace_query
from regard.lab.server.request_fields import FieldError
from support.lab_page import Opened

Open = Callable[..., Opened]
TOKENS = ["The", "cat", "sat", "on", "the", "mat"]


def softmax(x: np.ndarray) -> np.ndarray:
    grown = np.exp(x - x.max())
    return grown / grown.sum()


def weights(page: Opened) -> np.ndarray:
    return np.array(
        [float(one.get_attribute("data-value") or "nan") for one in page.tab.locator(".filter .bar-value").all()]
    )


def query(page: Opened) -> np.ndarray:
    """Where the query is, by the link."""
    page.settle()  # the address follows after a pause
    vector = page.tab.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('vector')")
    return np.array(json.loads(vector))


def expected(vector: np.ndarray, seed: int = 35) -> np.ndarray:
    return softmax(embed(TOKENS, 3, seed) @ projections(3, seed)[1] @ vector / np.sqrt(3))


def test_the_weights_are_numpys(page: Opened) -> None:
    page.go("#/geometry")
    q = embed(TOKENS, 3, 35)[1] @ projections(3, 35)[0]
    np.testing.assert_allclose(weights(page), expected(q), rtol=0, atol=1e-9)
    cells = page.tab.locator(".geometry-numbers td[data-column='6']").all()
    shown = [float(cell.get_attribute("data-value") or "nan") for cell in cells]
    np.testing.assert_allclose(shown, expected(q), rtol=0, atol=1e-9)


def test_dragging_turns_and_dragging_the_tip_moves_the_query(opened: Open) -> None:
    page = opened("#/geometry")
    before = page.tab.locator(".space .key polygon").first.get_attribute("points")
    box = page.tab.locator(".space").bounding_box()
    assert box is not None
    page.tab.mouse.move(box["x"] + 20, box["y"] + 20)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + 90, box["y"] + 40, steps=4)
    page.tab.mouse.up()
    assert page.tab.locator(".space .key polygon").first.get_attribute("points") != before
    q = embed(TOKENS, 3, 35)[1] @ projections(3, 35)[0]
    np.testing.assert_allclose(weights(page), expected(q), atol=1e-9)

    tip = page.tab.locator(".space .handle").bounding_box()
    assert tip is not None
    x, y = tip["x"] + tip["width"] / 2, tip["y"] + tip["height"] / 2
    page.tab.mouse.move(x, y)
    page.tab.mouse.down()
    page.tab.mouse.move(x + 120, y + 60, steps=5)
    page.tab.mouse.up()
    page.settle()
    moved = query(page)
    assert np.linalg.norm(moved - q) > 0.2
    np.testing.assert_allclose(weights(page), expected(moved), atol=1e-9)
    end = page.tab.locator(".space .handle").bounding_box()
    assert end is not None
    assert end["x"] + end["width"] / 2 == pytest.approx(x + 120, abs=5)
    page.tab.get_by_role("button", name="Reset the query").click()
    page.settle()
    np.testing.assert_allclose(weights(page), expected(q), atol=1e-9)


def test_by_keyboard_alone(opened: Open) -> None:
    page = opened("#/geometry")
    keyboard = page.tab.keyboard
    for _ in range(40):
        keyboard.press("Tab")
        if page.tab.evaluate("document.activeElement.classList.contains('space')"):
            break
    before = page.tab.locator(".space .key polygon").first.get_attribute("points")
    keyboard.press("ArrowLeft")
    keyboard.press("ArrowUp")
    assert page.tab.locator(".space .key polygon").first.get_attribute("points") != before
    keyboard.press("Shift+ArrowRight")
    keyboard.press("PageUp")
    page.settle()
    np.testing.assert_allclose(weights(page), expected(query(page)), atol=1e-9)
    keyboard.press("Tab")
    for _ in range(5):
        keyboard.press("ArrowRight")
    page.settle()
    np.testing.assert_allclose(weights(page), expected(query(page)), atol=1e-9)


def test_wider_arrows_for_larger_weights(opened: Open) -> None:
    page = opened("#/geometry")
    widths = page.tab.evaluate(
        "[...document.querySelectorAll('.space .key line')].map((line) => Number(line.getAttribute('stroke-width')))"
    )
    np.testing.assert_allclose(sorted(widths), sorted(1.4 + 13 * weights(page)), atol=0.01)


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_the_filter(opened: Open, locale: str) -> None:
    page = opened("#/geometry?threshold=0.2", locale=locale)
    row = weights(page)
    passing = row[row >= 0.2]
    assert page.tab.locator(".filter .passes").count() == len(passing)
    said = page.tab.locator(".passed").inner_text()
    numbers = {int(n) for n in re.findall(r"(?<![\d.])\d+(?![\d.])", said)}
    assert {len(passing), len(row), round(100 * passing.sum())} <= numbers
    page.tab.locator(".geometry-filter input[type=range]").fill("0")
    assert page.tab.locator(".filter .blocked").count() == 0


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_bad_input_is_said_at_the_field(opened: Open, locale: str) -> None:
    page = opened("#/geometry", locale=locale)
    page.tab.locator(".field.text input").fill("  ")
    expect(page.tab.locator(".field.text .field-message")).to_contain_text(
        "at least one word" if locale == "en-US" else "至少输入一个词"
    )


@pytest.mark.parametrize("vector", [[1, 2], ["a", 1, 2], [99, 0, 0], "x", [1, 2, 3, 4]])
def test_what_is_no_vector_is_refused(vector: Any) -> None:
    with pytest.raises(FieldError, match="vector must be three numbers"):
        trace_query({"vector": vector})


def test_a_link_restores_the_view(opened: Open) -> None:
    page = opened("#/geometry?text=%E7%8C%AB%E5%9D%90%E5%9C%A8&query=2&vector=[1.5,-0.5,0.25]&yaw=-40&threshold=0.3")
    assert page.tab.get_by_label("Query", exact=True).input_value() == "2"
    keys = embed(["猫", "坐", "在"], 3, 35) @ projections(3, 35)[1]
    np.testing.assert_allclose(weights(page), softmax(keys @ [1.5, -0.5, 0.25] / np.sqrt(3)), atol=1e-9)
    expect(page.tab.locator(".passed")).to_contain_text("0.300")


def test_a_broken_link_opens_all_the_same(opened: Open) -> None:
    page = opened("#/geometry?query=99&vector=[1,2]&yaw=x&threshold=7")
    page.settle()
    np.testing.assert_allclose(weights(page), expected(embed(TOKENS, 3, 35)[0] @ projections(3, 35)[0]), atol=1e-9)


def test_moving_between_views_keeps_what_was_there(opened: Open) -> None:
    page = opened("#/trace?step=mask&seed=3")
    page.tab.locator("nav a[data-view=geometry]").click()
    expect(page.tab.locator(".space")).to_be_visible()
    assert page.tab.evaluate("document.activeElement.tagName") == "H1"
    page.tab.locator("nav a[data-view=trace]").click()
    expect(page.tab.locator("[aria-current=step]")).to_have_attribute("data-step", "mask")
    expect(page.tab.get_by_label("Seed")).to_have_value("3")
