"""The view Trace on the real page: its numbers, its keys, its links, and what a learner does with it."""

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.attention import embed, masks, projections, tokenize, trace, trace_layer
from regard.attention.reference import numpy_attention as reference
from regard.cli import main
from regard.lab.models.trained_layers import LAYERS
from regard.lab.models.watched_models import watch_text
from support.lab_page import SVG, WORK_PATIENCE, Opened, needs_axe

STEPS = ["project", "split", "scores", "scale", "mask", "softmax", "context", "merge", "output"]
Open = Callable[..., Opened]
RANDOM = "#/trace?weights=random"  # without torch; older links have no weights and mean the same


@pytest.fixture
def page(opened: Open) -> Opened:
    return settings(opened(RANDOM))


def settings(page: Opened) -> Opened:
    """Open the settings, which are closed at first."""
    page.tab.get_by_role("button", name=re.compile("^(Settings|设置)$")).click()
    return page


def numpys(text: str, d_model: int, heads: int, mask: Any = None, seed: int = 0) -> dict[str, np.ndarray]:
    """The same computation in NumPy, written out here."""
    tokens = tokenize(text)
    x, (w_q, w_k, w_v, w_o) = embed(tokens, d_model, seed), projections(d_model, seed)
    found = {"X": x, "Q": x @ w_q, "K": x @ w_k, "V": x @ w_v}
    count, d_k = len(tokens), d_model // heads

    def cut(whole: np.ndarray) -> np.ndarray:
        return whole.reshape(count, heads, d_k).transpose(1, 0, 2)

    q, k, v = cut(found["Q"]), cut(found["K"]), cut(found["V"])
    scores = q @ k.transpose(0, 2, 1)
    scaled = scores / math.sqrt(d_k)
    seen = np.ones((count, count), dtype=bool) if mask is None else mask
    masked = np.where(seen, scaled, -np.inf)
    grown = np.exp(masked - masked.max(-1, keepdims=True))
    weights = grown / grown.sum(-1, keepdims=True)
    context = weights @ v
    merged = context.transpose(1, 0, 2).reshape(count, d_model)
    return found | {
        "split": np.stack([q, k, v]),
        "scores": scores,
        "scale": scaled,
        "mask": masked,
        "softmax": weights,
        "context": context,
        "merge": merged,
        "output": merged @ w_o,
    }


def shown(opened: Opened, part: str = "result") -> np.ndarray:
    """The exact numbers of a matrix in the page."""
    read = (
        "(part) => [...document.querySelectorAll(`[data-part=${part}] tbody tr`)]"
        ".map((row) => [...row.querySelectorAll('td')].map((cell) => cell.dataset.value))"
    )
    rows = opened.tab.evaluate(read, part)
    return np.array([[float(x.replace("Infinity", "inf")) for x in row] for row in rows])


def step(opened: Opened, name: str) -> None:
    opened.tab.locator(f".flow-step[data-step={name}]").click()
    expect(opened.tab.locator(f".flow-step[data-step={name}]")).to_have_attribute("aria-current", "step")


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "d_model", "heads", "mask"),
        [
            ("The cat sat on the mat", 8, 2, "none"),
            ("猫坐在垫子上", 12, 3, "causal"),
            ("один GPT模型 🙂 <b>x</b>", 4, 1, "causal & window(keys=2)"),
        ],
    )
    def test_every_step_is_numpys(self, opened: Open, text: str, d_model: int, heads: int, mask: str) -> None:
        page = settings(opened(RANDOM))
        page.tab.get_by_label("Your sentence").fill(text)
        page.tab.get_by_label("Width").fill(str(d_model))
        page.tab.get_by_label("Heads").fill(str(heads))
        page.tab.get_by_label("Mask").select_option("own")
        page.tab.get_by_label("Rule").fill(mask)
        count = len(tokenize(text))
        page.settle()
        seen = None
        if mask != "none":
            causal = np.tri(count, dtype=bool)
            near = ~np.tri(count, k=-2, dtype=bool)
            seen = causal & near if "window" in mask else causal
        expected = numpys(text, d_model, heads, seen)
        head = heads - 1
        for name in STEPS:
            step(page, name)
            if name == "project":
                for symbol in "QKV":
                    page.tab.locator(f"[data-which={symbol}]").click()
                    np.testing.assert_allclose(shown(page), expected[symbol], rtol=0, atol=1e-9)
                np.testing.assert_allclose(shown(page, "X"), expected["X"], rtol=0, atol=1e-9)
                continue
            if name == "split" and heads > 1:
                page.tab.locator(f"[data-head='{head}']").click()
            if name == "split":
                for i, symbol in enumerate("QKV"):
                    np.testing.assert_allclose(shown(page, symbol), expected["split"][i, head], rtol=0, atol=1e-9)
                continue
            wanted = expected[name] if name in ("merge", "output") else expected[name][head]
            np.testing.assert_allclose(shown(page), wanted, rtol=0, atol=1e-9)

    def test_cells_show_three_decimals(self, page: Opened) -> None:
        for cell in page.tab.locator(".part-result td").all()[:8]:
            exact = float(cell.get_attribute("data-value") or "nan")
            assert float(cell.inner_text().replace("−", "-")) == pytest.approx(exact, abs=5.01e-4)

    def test_an_empty_row_is_zero_and_said(self, opened: Open) -> None:
        page = opened("#/trace?step=softmax&mask=~prefix(9)&cell=[0,0]")
        assert (shown(page) == 0).all()
        expect(page.tab.locator(".worked")).to_contain_text("Nothing is visible")
        step(page, "output")
        assert (shown(page) == 0).all()

    def test_scale_off_and_temperature_saturate(self, opened: Open) -> None:
        page = settings(opened("#/trace?step=softmax&d_model=64&heads=1&text=The%20cat%20sat"))
        calm = shown(page).max(-1)
        page.tab.get_by_label("Divide by").uncheck()
        page.settle()
        sharp = shown(page).max(-1)
        assert (sharp > calm).all()
        q, k = (
            embed(["The", "cat", "sat"], 64) @ projections(64)[0],
            embed(["The", "cat", "sat"], 64) @ projections(64)[1],
        )
        np.testing.assert_allclose(shown(page), reference.attention(q, k, k, scale=1.0, weights=True)[1], atol=1e-9)


class TestCells:
    def test_hovering_lights_the_row_and_the_column(self, opened: Open) -> None:
        page = opened("#/trace?step=scores")
        page.tab.locator(".part-result td[data-row='2'][data-column='4']").hover()
        rows = page.tab.locator(".part-Q td.lit-row")
        columns = page.tab.locator(".part-K td.lit-column")
        assert {cell.get_attribute("data-row") for cell in rows.all()} == {"2"}
        assert {cell.get_attribute("data-column") for cell in columns.all()} == {"4"}
        assert (rows.count(), columns.count()) == (4, 4)
        assert page.tab.locator(".part-Q tbody th.lit").inner_text() == "sat"
        assert page.tab.locator(".part-K thead th.lit").inner_text() == "the"

    def test_the_formula_has_the_numbers_of_the_cell(self, opened: Open) -> None:
        page = opened("#/trace?step=scores")
        cell = page.tab.locator(".part-result td[data-row='1'][data-column='3']")
        cell.hover()
        said = (page.tab.locator(".worked .pieces").text_content() or "").replace("−", "-")
        found = [float(x) for x in re.findall(r"-?\d+\.\d{3}", said)]
        *factors, result = found
        expected = numpys("The cat sat on the mat", 8, 2)
        q, k = expected["split"][0, 0, 1], expected["split"][1, 0, 3]
        np.testing.assert_allclose(factors[0::2], q, atol=5.1e-4)
        np.testing.assert_allclose(factors[1::2], k, atol=5.1e-4)
        assert result == pytest.approx(q @ k, abs=5.1e-4)
        assert page.tab.locator(".worked math").count() >= 5
        assert page.tab.locator(".strip .chip").count() == 4

    def test_every_kind_of_cell_is_explained(self, opened: Open) -> None:
        page = opened("#/trace?mask=causal&text=a%20b%20a")
        for name in STEPS:
            step(page, name)
            for part in page.tab.locator("[data-part]").all():
                part.locator("td").last.hover()
                exact = (part.locator("td").last.get_attribute("data-value") or "").replace("Infinity", "inf")
                worked = page.tab.locator(".worked .mark-result").last.text_content() or ""
                result = worked.replace("−", "-").replace("∞", "inf")
                assert float(result) == pytest.approx(float(exact), abs=5.1e-4)

    def test_a_number_is_typed_over_and_the_rest_follows(self, opened: Open) -> None:
        page = opened("#/trace?step=split")
        cell = page.tab.locator(".part-Q td[data-row='1'][data-column='2']")
        cell.dblclick()
        page.tab.keyboard.type("3.5")
        page.tab.keyboard.press("Enter")
        expect(page.tab.locator(".part-Q td.edited")).to_have_count(1)
        q, k, _ = numpys("The cat sat on the mat", 8, 2)["split"]
        q[0, 1, 2] = 3.5
        step(page, "scores")
        np.testing.assert_allclose(shown(page), q[0] @ k[0].T, atol=1e-9)
        page.tab.get_by_role("button", name="Undo your changes (1)").click()
        page.settle()
        np.testing.assert_allclose(shown(page), numpys("The cat sat on the mat", 8, 2)["scores"][0], atol=1e-9)

    def test_what_is_no_number_is_refused_where_it_is_typed(self, opened: Open) -> None:
        page = opened("#/trace?step=split")
        page.tab.locator(".part-K td").first.dblclick()
        page.tab.keyboard.type("cat")
        page.tab.keyboard.press("Enter")
        expect(page.tab.locator("td.wrong input[aria-invalid=true]")).to_have_count(1)
        expect(page.tab.locator(".toast")).to_contain_text("Enter a number")
        page.tab.keyboard.press("Escape")
        expect(page.tab.locator("td input")).to_have_count(0)


class TestFields:
    @pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
    def test_bad_input_is_said_at_the_field(self, opened: Open, locale: str) -> None:
        page = settings(opened(RANDOM, locale=locale))
        for label, typed, right, english, chinese in (
            (0, "   ", "cat", "at least one word", "至少输入一个词"),
            (1, "3", "4", "3 heads do not divide a width of 8", "宽度 8 不能被 3 个头整除"),
            (1, "0", "4", "Enter a whole number from 1 to 128", "1 到 128 之间的整数"),
            (2, "999", "16", "Enter a whole number from 1 to 128", "1 到 128 之间的整数"),
        ):
            field = page.tab.locator(".trace-controls .field:not(:has(select))").nth(label)
            field.locator("input").fill(typed)
            said = field.locator(".field-message")
            expect(said).to_contain_text(english if locale == "en-US" else chinese)
            assert field.locator("input").get_attribute("aria-invalid") == "true"
            assert said.get_attribute("id") in (field.locator("input").get_attribute("aria-describedby") or "")
            field.locator("input").fill(right)
            expect(said).to_be_hidden()

    def test_an_answer_to_what_was_typed_before_takes_nothing_back(self, page: Opened) -> None:
        page.tab.locator(".flow-step[data-step=scores]").click()
        held = page.hold("**/api/trace", most=1)
        field = page.tab.locator(".trace-controls .field.number").nth(0)
        field.locator("input").fill("4")
        field.locator("input").fill("0")
        expect(field.locator(".field-message")).to_contain_text("Enter a whole number from 1 to 128")
        assert len(held) == 1
        page.release()
        expect(page.tab.locator(".trace-heads .head")).to_have_count(4)
        expect(field.locator(".field-message")).to_contain_text("Enter a whole number from 1 to 128")
        assert field.locator("input").input_value() == "0"
        page.tab.locator("h1").click()
        page.tab.get_by_label("Temperature").press("ArrowRight")  # the field shows again what counts
        expect(field.locator("input")).to_have_value("4")
        expect(field.locator(".field-message")).to_be_hidden()

    def test_a_bad_rule(self, page: Opened) -> None:
        page.tab.get_by_label("Mask").select_option("own")
        page.tab.get_by_label("Rule").fill("future")
        expect(page.tab.locator(".field.wrong .field-message")).to_contain_text("not a valid mask")


class TestKeys:
    def test_the_whole_view_by_keyboard_alone(self, opened: Open) -> None:
        page = opened(RANDOM)
        keyboard = page.tab.keyboard

        def focus() -> str:
            return page.tab.evaluate(
                "document.activeElement.className + ' ' + (document.activeElement.dataset.step ?? '')"
            )

        keyboard.press("Tab")
        assert "skip" in focus()
        keyboard.press("Enter")
        assert page.tab.evaluate("document.activeElement.id") == "main"
        seen = []
        for _ in range(60):
            keyboard.press("Tab")
            seen.append(focus())
            if page.tab.evaluate("document.activeElement.closest('td') !== null"):
                break
        assert next(name for name in seen if "flow-step" in name).endswith("project")
        assert len([name for name in seen if "flow-step" in name]) == 9
        assert page.tab.evaluate("document.activeElement.closest('td') !== null")
        keyboard.press("ArrowRight")
        keyboard.press("ArrowDown")
        at = page.tab.evaluate("({ ...document.activeElement.dataset })")
        assert (at["row"], at["column"]) == ("1", "1")
        keyboard.press("Escape")
        page.tab.locator("main").focus()
        for name in STEPS[1:]:
            keyboard.press("ArrowRight")
            expect(page.tab.locator("[aria-current=step]")).to_have_attribute("data-step", name)
        keyboard.press("ArrowRight")
        expect(page.tab.locator("[aria-current=step]")).to_have_attribute("data-step", "output")
        keyboard.press("ArrowLeft")
        expect(page.tab.locator("[aria-current=step]")).to_have_attribute("data-step", "merge")
        expect(page.tab.locator("#said")).to_contain_text("Concatenate the heads")

    def test_editing_by_keyboard(self, opened: Open) -> None:
        page = opened("#/trace?step=split")
        page.tab.locator(".part-V td").first.focus()
        page.tab.keyboard.press("ArrowDown")
        page.tab.keyboard.type("-2")
        page.tab.keyboard.press("Enter")
        expect(page.tab.locator(".part-V td.edited")).to_have_attribute("data-value", "-2")
        assert page.tab.evaluate("({ ...document.activeElement.dataset }).row") == "1"

    def test_what_is_chosen_while_the_numbers_are_on_their_way_counts(self, page: Opened) -> None:
        held = page.hold("**/api/trace")
        page.tab.get_by_role("button", name="中文").click()
        expect(page.tab.locator("h1")).to_have_text("逐个数字看懂注意力")
        page.tab.locator(".flow-step[data-step=softmax]").click()
        page.tab.locator(".play").click()
        page.tab.wait_for_timeout(700)  # longer than a beat of the player, which has nothing to play yet
        page.tab.locator(".play").click()
        assert len(held) == 1
        page.release()
        expect(page.tab.locator("[aria-current=step]")).to_have_attribute("data-step", "softmax")
        expect(page.tab.locator(".trace-board td").first).to_be_visible()

    def test_play_and_pause(self, page: Opened) -> None:
        page.tab.get_by_role("button", name="Play").click()
        expect(page.tab.locator("[aria-current=step]")).to_have_attribute("data-step", "split")
        page.tab.get_by_role("button", name="Pause").click()
        expect(page.tab.get_by_role("button", name="Play")).to_be_visible()


class TestLinks:
    LINK = (
        "#/trace?text=%E7%8C%AB%E5%9D%90+the+mat&heads=4&mask=causal&temperature=0.5&seed=7"
        "&step=context&head=2&cell=[3,1]"
    )

    def test_a_link_restores_everything(self, opened: Open) -> None:
        page = opened(self.LINK)
        assert page.tab.get_by_label("Your sentence").input_value() == "猫坐 the mat"
        assert page.tab.get_by_label("Heads").input_value() == "4"
        assert page.tab.get_by_label("Mask").input_value() == "causal"
        assert page.tab.locator("[aria-current=step]").get_attribute("data-step") == "context"
        assert page.tab.locator(".head[aria-pressed=true]").get_attribute("data-head") == "2"
        lit = page.tab.locator(".part-result td.lit-cell")
        assert (lit.get_attribute("data-row"), lit.get_attribute("data-column")) == ("3", "1")

    def test_what_is_done_is_in_the_link(self, page: Opened) -> None:
        page.tab.get_by_label("Your sentence").fill("猫 and dog")
        page.tab.get_by_label("Seed").fill("5")
        step(page, "softmax")
        page.tab.locator("[data-head='1']").click()
        page.tab.locator(".part-result td[data-row='2'][data-column='0']").click()
        page.tab.locator("[data-keep=link]").click()
        link = page.tab.evaluate("navigator.clipboard.readText()")
        numbers = shown(page)
        page.go(link.removeprefix(page.lab.origin + "/"))
        np.testing.assert_array_equal(shown(page), numbers)
        lit = page.tab.locator(".part-result td.lit-cell")
        assert (lit.get_attribute("data-row"), lit.get_attribute("data-column")) == ("2", "0")
        assert page.tab.get_by_label("Seed").input_value() == "5"

    def test_back_goes_back(self, page: Opened) -> None:
        page.tab.evaluate("location.hash = '#/trace?weights=random&seed=4'")
        page.settle()
        page.tab.go_back()
        expect(page.tab.get_by_label("Seed")).to_have_value("0")


class TestLooks:
    @pytest.mark.parametrize("options", [{}, {"locale": "zh-CN"}])
    def test_a_phone_needs_no_sideways_scrolling(self, opened: Open, options: dict[str, Any]) -> None:
        page = opened(RANDOM, viewport={"width": 390, "height": 844}, **options)
        for name in STEPS:
            step(page, name)
            assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390
            box = page.tab.locator("[aria-current=step]").bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= 390 - box["width"]

    def test_the_flow_stays_in_sight(self, opened: Open) -> None:
        page = opened("#/trace?step=softmax&mask=causal", viewport={"width": 1100, "height": 700})
        page.tab.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        box = page.tab.locator("[aria-current=step]").bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 400

    def test_both_languages(self, page: Opened) -> None:
        expect(page.tab.locator("h1")).to_have_text("Attention, number by number")
        step(page, "scores")
        page.tab.get_by_role("button", name="中文").click()
        expect(page.tab.locator("h1")).to_have_text("逐个数字看懂注意力")
        assert page.tab.evaluate("document.documentElement.lang") == "zh-Hans"
        assert page.tab.locator("[aria-current=step]").get_attribute("data-step") == "scores"
        assert "language" in page.tab.evaluate("document.activeElement.className")
        english = re.compile(r"[A-Za-z]{4,}")
        for name in STEPS:
            step(page, name)
            said = page.tab.locator(".trace-panel").inner_text()
            assert set(english.findall(said)) <= {"softmax", "token"}
        page.tab.reload()
        page.ready()
        expect(page.tab.locator("h1")).to_have_text("逐个数字看懂注意力")

    def test_the_theme_is_switched_and_kept(self, page: Opened) -> None:
        def background() -> str:
            return page.tab.evaluate("getComputedStyle(document.body).backgroundColor")

        light = background()
        page.tab.get_by_role("button", name="Switch to dark").click()
        dark = background()
        assert light != dark
        page.tab.reload()
        page.ready()
        assert background() == dark
        page.tab.get_by_role("button", name="High contrast").click()
        assert background() == "rgb(0, 0, 0)"

    def test_reduced_motion_moves_nothing(self, opened: Open) -> None:
        page = opened(RANDOM, reduced_motion="reduce")
        durations = page.tab.evaluate(
            "[...document.querySelectorAll('button, td')].map((one) => getComputedStyle(one).transitionDuration)"
        )
        assert set(durations) <= {"0s"}

    def test_sixty_four_tokens(self, opened: Open) -> None:
        text = "%20".join(f"w{i}" for i in range(64))
        page = opened(f"#/trace?text={text}&heads=8&d_model=64&step=scores")
        expected = numpys(text.replace("%20", " "), 64, 8)["scores"][0]
        canvas = page.tab.locator(".part-result canvas")
        canvas.focus()
        for _ in range(3):
            page.tab.keyboard.press("Shift+ArrowDown")
        page.tab.keyboard.press("Shift+ArrowRight")
        cells = page.tab.locator(".part-result td").all()
        assert len(cells) == 49
        for cell in cells[::7]:
            at = cell.evaluate(
                "(cell) => [Number(cell.dataset.row), Number(cell.dataset.column), Number(cell.dataset.value)]"
            )
            assert at[2] == pytest.approx(expected[int(at[0]), int(at[1])], abs=1e-9)
        assert "35" in {cell.get_attribute("data-row") for cell in cells}


def test_a_large_matrix_is_zoomed_and_moved(opened: Open) -> None:
    page = opened(f"#/trace?text={'%20'.join(f'w{i}' for i in range(64))}&heads=8&d_model=64&step=scores")
    mouse, canvas = page.tab.mouse, page.tab.locator(".part-result canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2 + 1, box["y"] + box["height"] / 2 + 1)

    def looked() -> tuple[int, int]:
        cell = page.tab.locator(".part-result td.lit-cell")
        return int(cell.get_attribute("data-row") or -1), int(cell.get_attribute("data-column") or -1)

    mouse.move(*middle)
    assert looked() == (32, 32)
    mouse.wheel(0, -600)
    page.tab.wait_for_timeout(100)
    mouse.move(middle[0] + 4, middle[1])
    assert looked() == (32, 32)  # a step of four pixels is less than a cell now
    mouse.down()
    mouse.move(middle[0] - 80, middle[1] - 80, steps=6)
    mouse.up()
    mouse.move(*middle)
    row, column = looked()
    assert 33 <= row <= 36
    assert 33 <= column <= 36
    canvas.press("0")
    page.tab.wait_for_timeout(100)
    mouse.move(box["x"] + 3, box["y"] + 3)  # inside the first cell and inside the rounded corner
    assert looked() == (0, 0)


@needs_axe
@pytest.mark.parametrize(
    ("steps", "options"),
    [
        (STEPS, {}),
        (("project", "split", "mask", "softmax"), {"color_scheme": "dark"}),
        (("project", "split", "mask", "softmax"), {"locale": "zh-CN", "viewport": {"width": 390, "height": 844}}),
    ],
)
def test_axe_finds_nothing_serious(opened: Open, steps: Sequence[str], options: dict[str, Any]) -> None:
    page = settings(opened("#/trace?mask=causal", reduced_motion="reduce", **options))
    for name in steps:
        step(page, name)
        assert page.violations() == []
    page.tab.locator(".part-result td").first.hover()
    page.tab.get_by_role("spinbutton").first.fill("7")
    page.tab.wait_for_selector(".field.wrong")
    assert page.violations() == []


SIZES = {"desktop": {"width": 1360, "height": 900}, "phone": {"width": 390, "height": 844}}
RESULT_CELLS = """() => {
  const part = document.querySelector("[data-part=result]") ?? document.querySelector(".trace-board");
  return [...part.querySelectorAll("td")].map((cell) => {
    const box = cell.getBoundingClientRect();
    const on_top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    return [box.left, box.top, box.right, box.bottom, cell.contains(on_top)];
  });
}"""


class TestTrained:
    @pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
    @pytest.mark.parametrize("size", SIZES)
    def test_the_result_of_every_step_is_visible_without_scrolling(self, opened: Open, size: str, locale: str) -> None:
        page = opened("#/trace", viewport=SIZES[size], locale=locale)
        page.tab.wait_for_selector("[data-part=result] td", timeout=WORK_PATIENCE)
        assert "weights=cross-2" in page.tab.evaluate("location.hash")
        for link in ("#/trace?weights=cross-2&mask=causal", RANDOM):
            page.follow(link)
            for name in STEPS:
                page.tab.locator(f".flow-step[data-step={name}]").evaluate("(button) => button.click()")
                page.settle()
                assert page.tab.evaluate("scrollY") == 0
                cells = page.tab.evaluate(RESULT_CELLS)
                assert len(cells) >= 24
                width, height = SIZES[size].values()
                for left, top, right, bottom, on_top in cells:
                    assert 0 <= left <= right <= width, (link, name)
                    assert 0 <= top <= bottom <= height, (link, name)
                    assert on_top, (link, name)

    def test_the_numbers_are_those_of_the_model(self, opened: Open) -> None:
        page = opened("#/trace?weights=cross-2&step=softmax&head=1&text=The%20dog%20sat")
        page.tab.wait_for_selector("[data-part=result] td", timeout=WORK_PATIENCE)
        for weights in ("cross-2", "encoder-1", "language-3"):
            page.tab.get_by_label("Weights").select_option(weights)
            page.settle()
            page.tab.locator("[data-head='1']").click()
            model, name = LAYERS[weights]
            call = next(call for call in watch_text(model, "The dog sat").seen.calls if call.name == name)
            np.testing.assert_allclose(shown(page), call.weights(batch=0)[1].numpy(), atol=2e-6)
        # Biases are part of the sum that explains a cell.
        step(page, "output")
        page.tab.locator(".part-result td").nth(3).hover()
        result = (page.tab.locator(".worked .mark-result").text_content() or "").replace("−", "-")
        exact = float(page.tab.locator(".part-result td").nth(3).get_attribute("data-value") or "nan")
        assert float(result) == pytest.approx(exact, abs=5.1e-4)
        products = [float(x.replace("−", "-")) for x in page.tab.locator(".strip .chip").all_inner_texts()]
        assert len(products) == 16

    def test_undo_and_redo_by_keyboard(self, opened: Open) -> None:
        page = opened(f"{RANDOM}&step=split")
        before = shown(page, "Q")
        for row, value in ((0, "2"), (1, "3")):
            page.tab.locator(f".part-Q td[data-row='{row}'][data-column='0']").dblclick()
            page.tab.keyboard.type(value)
            page.tab.keyboard.press("Enter")
            page.settle()
        page.tab.get_by_label("Weights").select_option("encoder-1")
        expect(page.tab.locator(".trace-heads .head")).to_have_count(4, timeout=WORK_PATIENCE)
        page.tab.locator("main").focus()
        changed = before.copy()
        changed[:2, 0] = 2, 3
        one = before.copy()
        one[0, 0] = 2

        for key, expected in (
            ("Control+z", changed),
            ("Control+z", one),
            ("Control+z", before),
            ("Control+z", before),  # nothing is left
            ("Control+Shift+z", one),
            ("Control+y", changed),
            ("Control+z", one),
        ):
            page.tab.keyboard.press(key)
            page.settle()
            np.testing.assert_array_equal(shown(page, "Q"), expected, err_msg=key)
        page.tab.get_by_role("button", name="Redo").click()
        page.settle()
        np.testing.assert_array_equal(shown(page, "Q"), changed)

    def test_linear_as_a_loop_a_reshape_and_one_call(self, opened: Open) -> None:
        page = opened(f"{RANDOM}&which=K")
        page.tab.locator(".linear summary").click()
        page.tab.wait_for_selector(".linear [data-way]", timeout=WORK_PATIENCE)
        page.tab.get_by_label("Token").select_option("1 0")  # the last word, first in the reversed sentence
        expected = numpys("The cat sat on the mat", 8, 2)["K"][-1]
        for way in ("loop", "reshape", "call"):
            row = page.tab.locator(f"[data-way={way}]")
            values = row.locator("[data-value]").evaluate_all("(all) => all.map((e) => Number(e.dataset.value))")
            np.testing.assert_allclose(values, expected[:6], atol=1e-6)
            assert float(row.get_attribute("data-difference") or "nan") <= 1e-6
        expect(page.tab.locator("[data-way=reshape]")).to_contain_text("equal to the last bit")


class TestKept:
    @pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
    def test_the_html_file_opens_from_disk_without_a_network(self, opened: Open, tmp_path: Path, locale: str) -> None:
        page = opened("#/trace?text=猫坐在&step=softmax&mask=causal", locale=locale)
        numbers, heading = shown(page), page.tab.locator("h1").inner_text()
        requests = page.from_disk(page.kept("page", tmp_path))
        tab = page.tab
        np.testing.assert_array_equal(shown(page), numbers)
        assert tab.locator("h1").inner_text() == heading
        for name in STEPS:
            step(page, name)
        tab.locator(".part-result td").first.hover()
        assert tab.locator(".worked math").count() > 2
        tab.locator(".language").click()
        expect(tab.locator("h1")).not_to_have_text(heading)
        assert tab.locator("[aria-current=step]").get_attribute("data-step") == "output"
        settings(page)
        tab.locator(".field input[type=number]").first.fill("4")
        tab.wait_for_selector(".toast")
        assert not [url for url in requests if url.startswith("http")]

    def test_svg_and_png(self, opened: Open, tmp_path: Path) -> None:
        page = opened("#/trace?step=scores")
        drawn = page.kept("svg", tmp_path).read_text(encoding="utf-8")
        assert drawn.startswith("<?xml")
        assert len(re.findall(r"-?−?\d+\.\d{3}<", drawn)) == 24 + 24 + 36
        assert {url for url in re.findall(r"https?://[^\"<]+", drawn) if not url.startswith(page.lab.origin)} == {SVG}
        image = page.kept("png", tmp_path).read_bytes()
        assert image.startswith(b"\x89PNG")
        assert len(image) > 10_000
        page.tab.locator("[data-keep=copy]").click()
        expect(page.tab.locator(".toast")).to_have_text("The picture has been copied.")
        kinds = page.tab.evaluate("navigator.clipboard.read().then((items) => items.flatMap((item) => item.types))")
        assert kinds == ["image/png"]


def test_the_page_marks_how_long_a_step_takes(page: Opened) -> None:
    for name in STEPS[1:4]:
        step(page, name)
    page.tab.wait_for_function("() => performance.getEntriesByName('trace-step').length === 3")


def test_masks_offered_are_masks(static: Path) -> None:
    code = (static / "views" / "trace.js").read_text(encoding="utf-8")
    offered = json.loads(re.search(r"const MASKS = (\[.*?\]);", code, re.DOTALL)[1])  # type: ignore[index]
    assert offered[0] == "none"
    for text in offered[1:]:
        mask = masks.parse(text)
        zeros = np.zeros((6, 1))
        visible = np.asarray(trace(zeros, zeros, zeros, mask).visible)
        assert 0 < visible.sum() < visible.size, text  # it hides some pairs of six tokens, not all


@pytest.mark.parametrize("more", [[], ["--context", "a dog and 猫"]])
def test_the_command_line_saves_the_same_page(opened: Open, tmp_path: Path, more: list[str]) -> None:
    file = tmp_path / "trace.html"
    assert main(["trace", "The cat sat", "--heads", "4", "--mask", "causal", "--save", str(file), *more]) == 0
    page = opened(RANDOM)
    page.tab.goto(file.as_uri())
    page.ready()
    others = embed(tokenize(more[1]), 8) if more else None
    traced = trace_layer(embed(["The", "cat", "sat"], 8), *projections(8), 4, others, masks.causal())
    for name in ("scores", "output"):
        step(page, name)
        values = traced.part(name).values
        np.testing.assert_array_equal(shown(page), values[0] if values.ndim == 3 else values)
    step(page, "project")
    page.tab.locator("[data-which=V]").click()
    np.testing.assert_array_equal(shown(page), traced.part("project", "V").values)


def test_only_pages_are_saved(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "The cat", "--save", "trace.png"]) == 2
    assert "--save writes a page" in capsys.readouterr().err


def test_old_numbers_are_dimmed_after_rejected_input(opened: Open) -> None:
    page = opened("#/trace?weights=random&step=scores")
    dimmed = "getComputedStyle(document.querySelector('.matrix')).filter.includes('opacity(0.4)')"
    page.tab.locator(".trace-more").click()
    heads = page.tab.locator(".trace-controls input[type=number]").first
    heads.fill("3")
    expect(heads).to_have_attribute("aria-invalid", "true")
    assert page.tab.evaluate(dimmed)
    heads.fill("4")
    expect(heads).not_to_have_attribute("aria-invalid", "true")
    assert not page.tab.evaluate(dimmed)
