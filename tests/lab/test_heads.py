"""The view Heads and masks on the real page: its numbers, painting and silencing, a translator's alignment."""

import base64
import copy
import json
import math
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect

import regard
from regard import training
from regard.attention import embed, masks, projections, tokenize
from regard.lab.api.heads import alignment, self_attention
from regard.lab.models import watched_models as remembered
from regard.lab.models.watched_models import RUNS, watch_text
from regard.lab.server.array_encoding import encode_array
from regard.lab.server.request_fields import FieldError
from support.lab_page import SVG, Opened, needs_axe

Open = Callable[..., Opened]
TEXT = "The cat sat on the mat"
CELL = "() => { const cell = document.querySelector('.reading-value'); return cell && cell.dataset; }"


@pytest.fixture(scope="module", autouse=True)
def translators() -> None:
    """Loaded once, so that no test waits for torch on the page."""
    watch_text("phrases", TEXT)
    watch_text("dates", "Tuesday, March 5, 2024")


def numpys(text: str, d_model: int, heads: int, seen: np.ndarray | None = None, seed: int = 7) -> dict[str, np.ndarray]:
    """The same layer in NumPy, written out here: weights (H, L, S), and what each head adds to the output (H, L, D)."""
    x, (w_q, w_k, w_v, w_o) = embed(tokenize(text), d_model, seed), projections(d_model, seed)
    count, d_k = len(x), d_model // heads

    def cut(whole: np.ndarray) -> np.ndarray:
        return whole.reshape(count, heads, d_k).transpose(1, 0, 2)

    scores = cut(x @ w_q) @ cut(x @ w_k).transpose(0, 2, 1) / math.sqrt(d_k)
    visible = np.ones((count, count), dtype=bool) if seen is None else seen
    grown = np.where(visible, np.exp(scores), 0.0)
    total = grown.sum(-1, keepdims=True)
    weights = np.divide(grown, total, out=np.zeros_like(grown), where=total > 0)
    parts = weights @ cut(x @ w_v)
    return {"weights": weights, "adds": np.stack([parts[h] @ w_o[h * d_k : (h + 1) * d_k] for h in range(heads)])}


def table(page: Opened) -> np.ndarray:
    """The exact numbers of the large head, from its table."""
    if page.tab.locator("details.heads-numbers").get_attribute("open") is None:
        page.tab.locator("details.heads-numbers summary").click()
    page.tab.wait_for_selector(".heads-numbers td")
    rows = page.tab.evaluate(
        "[...document.querySelectorAll('.heads-numbers tbody tr')]"
        ".map((row) => [...row.querySelectorAll('td')].map((cell) => Number(cell.dataset.value)))"
    )
    return np.array(rows)


def moved(page: Opened, kind: str) -> np.ndarray:
    return np.array(
        page.tab.evaluate(
            "(kind) => [...document.querySelectorAll(`.moved-value.${kind}`)].map((one) => Number(one.dataset.value))",
            kind,
        )
    )


def place(page: Opened, row: int, column: int, count: int = 6) -> tuple[float, float]:
    """Where the middle of a cell of the large map is on the screen."""
    canvas = page.tab.locator(".heads-map canvas")
    canvas.evaluate("(canvas) => canvas.scrollIntoView({ block: 'center' })")
    box = canvas.bounding_box()
    assert box is not None
    size = page.tab.evaluate(
        """() => { const canvas = document.querySelector('.heads-map canvas');
        const paint = canvas.getContext('2d'); paint.font = `12.5px ${getComputedStyle(canvas).fontFamily}`;
        const names = [...document.querySelectorAll('.moved-name')].map((one) => one.textContent);
        return Math.ceil(Math.max(...names.map((name) => paint.measureText(name).width), 8)) + 10; }"""
    )
    cell = min((box["width"] - size) / count, (560 - 24) / count, 96)
    return box["x"] + size + (column + 0.5) * cell, box["y"] + 24 + (row + 0.5) * cell


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "d_model", "heads", "mask"),
        [
            (TEXT, 16, 4, "none"),
            ("猫坐在垫子上", 12, 3, "causal"),
            ("один GPT模型 🙂 <b>x</b>", 8, 2, "causal & window(keys=2)"),
        ],
    )
    def test_every_head_is_numpys(self, opened: Open, text: str, d_model: int, heads: int, mask: str) -> None:
        page = opened("#/heads")
        page.tab.get_by_label("Your sentence").fill(text)
        page.tab.get_by_label("Heads", exact=True).fill(str(heads))
        page.tab.get_by_label("Width").fill(str(d_model))
        if mask != "none":
            page.tab.get_by_label("Mask", exact=True).select_option(
                "causal" if mask == "causal" else "causal & window(keys=2)"
            )
        page.settle()
        count = len(tokenize(text))
        causal, near = np.tri(count, dtype=bool), ~np.tri(count, k=-2, dtype=bool)
        seen = None if mask == "none" else causal if mask == "causal" else causal & near
        expected = numpys(text, d_model, heads, seen)["weights"]
        for head in range(heads):
            page.tab.locator(f".tile-pick[data-head='{head}']").click()
            np.testing.assert_allclose(table(page), expected[head], rtol=0, atol=1e-9)

    def test_the_output_moves_as_numpys_does(self, opened: Open) -> None:
        page = opened("#/heads?mask=causal")
        page.tab.locator(".tile-switch[data-head='1']").click()
        page.tab.locator(".tile-switch[data-head='3']").click()
        page.settle()
        free, hidden = numpys(TEXT, 16, 4), numpys(TEXT, 16, 4, np.tri(6, dtype=bool))
        by_mask = np.linalg.norm(hidden["adds"].sum(0) - free["adds"].sum(0), axis=-1)
        np.testing.assert_allclose(moved(page, "by-mask"), by_mask, rtol=0, atol=1e-9)
        by_heads = np.linalg.norm(hidden["adds"][[1, 3]].sum(0), axis=-1)
        np.testing.assert_allclose(moved(page, "by-heads"), by_heads, rtol=0, atol=1e-9)
        assert page.tab.locator(".tile.off").count() == 2
        expect(page.tab.locator(".moved-key")).to_contain_text("head 2, 4")
        page.tab.get_by_role("button", name="Enable all heads").click()
        page.settle()
        assert (moved(page, "by-heads") == 0).all()

    def test_bars_are_as_long_as_their_numbers(self, opened: Open) -> None:
        page = opened("#/heads?mask=causal&off=[0]")
        widths = page.tab.evaluate(
            "[...document.querySelectorAll('.moved-bar.by-mask .fill')].map((one) => parseFloat(one.style.width))"
        )
        longest = np.linalg.norm(numpys(TEXT, 16, 4, np.tri(6, dtype=bool))["adds"].sum(0), axis=-1).max()
        most = max(longest, *moved(page, "by-mask"), *moved(page, "by-heads"))
        np.testing.assert_allclose(widths, 100 * moved(page, "by-mask") / most, atol=1e-3)

    @settings(max_examples=25, deadline=None)
    @given(data=st.data())
    def test_any_painted_mask_is_numpys(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, 7))
        text = " ".join(f"w{i % 4}" for i in range(count))
        pairs = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), unique=True))
        off = data.draw(st.lists(st.integers(0, 3), unique=True))
        seen = np.ones((count, count), dtype=bool)
        for i, j in pairs:
            seen[i, j] = False
        found = self_attention(
            {"text": text, "heads": 4, "d_model": 8, "seed": 7, "painted": list(map(list, pairs)), "off": off}
        )
        expected = numpys(text, 8, 4, seen)
        np.testing.assert_allclose(_unencode_array(found["weights"]), expected["weights"], rtol=0, atol=1e-12)
        kept = [head for head in range(4) if head not in off]
        np.testing.assert_allclose(found["output"], expected["adds"][kept].sum(0), rtol=0, atol=1e-12)
        assert found["empty"] == np.flatnonzero(~seen.any(-1)).tolist()
        assert np.isfinite(found["output"]).all()


def _unencode_array(given: dict[str, Any]) -> np.ndarray:
    kind = {"float32": "<f4", "float64": "<f8", "uint8": "|u1"}[given["kind"]]
    return np.frombuffer(base64.b64decode(given["bytes"]), dtype=kind).reshape(given["shape"])


class TestPainting:
    def test_a_stroke_hides_what_it_touches(self, opened: Open) -> None:
        page = opened("#/heads")
        mouse = page.tab.mouse
        mouse.move(*place(page, 1, 0))
        mouse.down()
        mouse.move(*place(page, 1, 3))  # in one leap: the cells between are painted as well
        mouse.up()
        page.settle()
        seen = np.ones((6, 6), dtype=bool)
        seen[1, :4] = False
        np.testing.assert_allclose(table(page), numpys(TEXT, 16, 4, seen)["weights"][0], rtol=0, atol=1e-9)
        expect(page.tab.locator(".hidden-count")).to_have_text("4 of 36 pairs hidden")
        painted = page.tab.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('painted')")
        assert json.loads(painted) == [[1, 0], [1, 1], [1, 2], [1, 3]]
        mouse.click(*place(page, 1, 2))  # shown again
        page.settle()
        seen[1, 2] = True
        np.testing.assert_allclose(table(page), numpys(TEXT, 16, 4, seen)["weights"][0], rtol=0, atol=1e-9)
        page.tab.get_by_role("button", name="Clear painting").click()
        page.settle()
        np.testing.assert_allclose(table(page), numpys(TEXT, 16, 4)["weights"][0], rtol=0, atol=1e-9)

    def test_strokes_are_undone_one_by_one(self, opened: Open) -> None:
        page = opened("#/heads?heads=2&d_model=4")
        canvas, keyboard = page.tab.locator(".heads-map canvas"), page.tab.keyboard
        canvas.focus()
        for key in ("Space", "ArrowRight", "Space"):
            keyboard.press(key)
        page.settle()

        def hidden() -> int:
            page.settle()
            return int(page.tab.locator(".hidden-count").inner_text().split()[0])

        assert hidden() == 2
        for key, count in (("z", 1), ("z", 0), ("Shift+z", 1), ("y", 2), ("z", 1)):
            keyboard.press(f"Control+{key}")
            assert hidden() == count
        page.tab.get_by_role("button", name="Redo").click()
        assert hidden() == 2

    def test_painting_goes_on_top_of_a_rule(self, opened: Open) -> None:
        page = opened("#/heads?mask=causal")
        page.tab.mouse.click(*place(page, 0, 5))
        page.tab.mouse.click(*place(page, 5, 0))
        page.settle()
        seen = np.tri(6, dtype=bool)
        seen[0, 5], seen[5, 0] = True, False
        np.testing.assert_allclose(table(page), numpys(TEXT, 16, 4, seen)["weights"][0], rtol=0, atol=1e-9)
        page.tab.get_by_role("button", name="Invert").click()
        page.settle()
        np.testing.assert_allclose(table(page), numpys(TEXT, 16, 4, ~seen)["weights"][0], rtol=0, atol=1e-9)

    def test_a_row_that_sees_nothing_is_zero_and_said(self, opened: Open) -> None:
        page = opened("#/heads?cell=[2,0]")
        page.tab.get_by_role("button", name="Hide or show this row").click()
        page.settle()
        assert (table(page)[2] == 0).all()
        assert np.isfinite(table(page)).all()
        expect(page.tab.locator(".empty-rows")).to_contain_text("“sat”")
        expect(page.tab.locator(".empty-rows")).to_contain_text("never NaN")
        expect(page.tab.locator(".reading")).to_contain_text("nothing visible")
        expect(page.tab.locator(".moved li.empty .moved-name")).to_have_text("sat")
        assert "NaN" not in page.tab.locator(".heads-main .moved").inner_text()

    def test_without_the_pen_a_click_only_looks(self, opened: Open) -> None:
        page = opened("#/heads")
        page.tab.get_by_role("button", name="Pen").click()
        page.tab.mouse.click(*place(page, 2, 4))
        page.settle()
        expect(page.tab.locator(".hidden-count")).to_have_text("0 of 36 pairs hidden")
        found = page.tab.evaluate(CELL)
        assert (found["row"], found["column"]) == ("2", "4")
        assert float(found["value"]) == pytest.approx(numpys(TEXT, 16, 4)["weights"][0, 2, 4], abs=1e-9)

    def test_by_keyboard_alone(self, opened: Open) -> None:
        page = opened("#/heads")
        keyboard = page.tab.keyboard

        def tab_to(selector: str) -> None:
            for _ in range(60):
                keyboard.press("Tab")
                if page.tab.evaluate("(selector) => document.activeElement.matches(selector)", selector):
                    return
            raise AssertionError(f"the Tab key never reached {selector}")

        tab_to(".tile-pick[data-head='2']")
        keyboard.press("Enter")
        expect(page.tab.locator(".heads-large h2")).to_have_text("Head 3")
        keyboard.press("Tab")
        keyboard.press("Space")
        page.settle()
        expect(page.tab.locator(".tile-switch[data-head='2']")).to_have_attribute("aria-checked", "false")
        tab_to(".heads-map canvas")
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Space", "ArrowRight", "Enter"):
            keyboard.press(key)
        page.settle()
        seen = np.ones((6, 6), dtype=bool)
        seen[2, 1:3] = False
        expect(page.tab.locator(".hidden-count")).to_have_text("2 of 36 pairs hidden")
        assert "hidden by the mask" in page.tab.locator(".heads-map output").inner_text()
        keyboard.press("Home")
        expected = numpys(TEXT, 16, 4, seen)["weights"][2, 2, 0]
        assert float(page.tab.evaluate(CELL)["value"]) == pytest.approx(expected, abs=1e-9)
        assert f"{expected:.4f}" in page.tab.locator(".heads-map output").inner_text()

    def test_masks_offered_are_masks(self, opened: Open, static: Path) -> None:
        page = opened("#/heads?text=a%20b%20c%20d%20e")
        for choice in page.tab.locator("select option").evaluate_all("(all) => all.map((one) => one.value)")[:-1]:
            page.tab.get_by_label("Mask", exact=True).select_option(choice)
            page.settle()
            mask = page.tab.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('mask')") or "none"
            assert page.tab.get_by_label("Mask", exact=True).input_value() == choice
            seen = (
                np.ones((5, 5), dtype=bool)
                if mask == "none"
                else np.broadcast_to(
                    np.asarray(masks.parse(mask).visible(0, 0, np.arange(5)[:, None], np.arange(5))), (5, 5)
                )
            )
            expect(page.tab.locator(".hidden-count")).to_have_text(f"{(~seen).sum()} of 25 pairs hidden")


class TestTranslator:
    @pytest.mark.parametrize(
        ("mode", "text", "written"),
        [("phrases", TEXT, "猫坐在垫子上"), ("dates", "21st of December 1999", "1999年12月21日")],
    )
    def test_alignment_is_what_regard_watches(self, opened: Open, mode: str, text: str, written: str) -> None:
        page = opened(f"#/heads?mode={mode}")
        page.tab.get_by_label("An English sentence" if mode == "phrases" else "A date").fill(text)
        page.settle()
        expect(page.tab.locator(".written")).to_have_text(written)
        run = training.load(mode)
        source, target, queries, keys = run.pair(text, run.generate(text))
        with torch.no_grad(), regard.watch(run.model.eval(), only="*.cross") as seen:
            run.model(source, target)
        if len(keys) <= 20:
            for layer, call in enumerate(seen.calls):
                for head in range(call.shape[1]):
                    page.tab.locator(f".tile-pick[data-layer='{layer}'][data-head='{head}']").click()
                    expected = call.weights(batch=0, head=head).double().numpy()
                    np.testing.assert_allclose(table(page), expected, rtol=0, atol=1e-9)
        else:
            page.tab.locator(".tile-pick[data-layer='0'][data-head='2']").click()
            page.tab.locator(".heads-map canvas").focus()
            page.tab.keyboard.press("ArrowUp")
            expected = seen.calls[0].weights(batch=0, head=2).double().numpy()
            for i in range(len(queries)):
                assert float(page.tab.evaluate(CELL)["value"]) == pytest.approx(float(expected[i, 0]), abs=1e-9)
                page.tab.keyboard.press("ArrowDown")
        words = page.tab.locator(".lines text.query").all_text_contents()
        assert words == [" ".join(q.split()) or "␣" for q in queries]

    def test_lines_are_the_weights(self, opened: Open) -> None:
        page = opened("#/heads?mode=phrases&layer=1&head=0")
        page.tab.wait_for_selector(".lines")
        weights = table(page)
        drawn = page.tab.evaluate(
            "[...document.querySelectorAll('.lines .line')].map((one) => "
            "[Number(one.dataset.query), Number(one.dataset.key), Number(one.getAttribute('stroke-width'))])"
        )
        assert {(i, j) for i, j, _ in drawn} == set(zip(*np.nonzero(weights >= 0.02), strict=True))
        for i, j, width in drawn:
            assert width == pytest.approx(0.8 + 6 * weights[i, j], abs=0.006)
        page.tab.locator(".lines text.query").nth(3).hover()
        found = page.tab.evaluate(CELL)
        assert int(found["row"]) == 3
        assert int(found["column"]) == weights[3].argmax()

    def test_silent_heads_are_silent(self, opened: Open) -> None:
        page = opened("#/heads?mode=phrases")
        page.tab.wait_for_selector(".lines")
        off = [(0, 1), (1, 0), (1, 2), (1, 3), (0, 0), (0, 2), (0, 3), (1, 1)]
        for layer, head in off:
            page.tab.locator(f".tile-switch[data-layer='{layer}'][data-head='{head}']").click()
        page.settle()
        run = training.load("phrases")
        changed = copy.deepcopy(run.model).eval()
        for layer, head in off:  # the same by other means: the columns of the output layer that read the head
            cross = changed.decoder.layers[layer].cross
            with torch.no_grad():
                cross.out.weight[:, head * cross.d_k : (head + 1) * cross.d_k] = 0
        source, target, *_ = run.pair(TEXT, run.generate(TEXT))
        written = [*target[0, 1:].tolist(), 2]
        for kind, model in (("before", run.model.eval()), ("after", changed)):
            with torch.no_grad():
                expected = model(source, target)[0].double().softmax(-1)[torch.arange(len(written)), written]
            np.testing.assert_allclose(moved(page, kind), expected.numpy(), rtol=0, atol=1e-9)
        expect(page.tab.locator(".rewritten")).to_contain_text("Output with 8 heads disabled:")
        assert page.tab.locator(".rewritten strong").inner_text() != "猫坐在垫子上"
        np.testing.assert_allclose(alignment({})["after"], alignment({})["before"])  # and heard again afterwards

    def test_what_it_never_saw_is_said(self, opened: Open) -> None:
        page = opened("#/heads?mode=phrases&text=The%20zebra%20sat%20on%20the%20mat")
        expect(page.tab.locator(".translation .note")).to_contain_text("zebra")


class TestBadInput:
    @pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
    def test_it_is_said_at_the_field(self, opened: Open, locale: str) -> None:
        page = opened("#/heads?text=%20", locale=locale)
        message = page.tab.locator(".field.wrong .field-message")
        for link, english, chinese in (
            ("#/heads?text=%20", "at least one word", "至少输入一个词"),
            (f"#/heads?text={'a%20' * 65}", "At most 64 tokens", "最多 64 个词元"),
            ("#/heads?heads=5", "5 heads do not divide a width of 16", "宽度 16 不能被 5 个头整除"),
            ("#/heads?mask=causl", "not a valid mask", "掩码规则无效"),
            ("#/heads?mode=phrases&text=xyzzy", "training text: xyzzy", "没有出现过：xyzzy"),
            (f"#/heads?mode=dates&date={'3' * 60}", "At most 48 tokens", "最多 48 个词元"),
        ):
            page.follow(link)
            expect(message).to_contain_text(english if locale == "en-US" else chinese)
            assert message.count() == 1
        page.follow("#/heads")
        expect(message).to_have_count(0)

    @pytest.mark.parametrize(
        "asked",
        [
            {"painted": [[0, 99]]},
            {"painted": "x"},
            {"painted": [[0]]},
            {"off": [9]},
            {"off": [True]},
            {"off": "all"},
            {"heads": 17},
            {"mask": "documents([0, 1])"},
            {"text": "x" * 2001},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, asked: dict[str, Any]) -> None:
        with pytest.raises(FieldError):
            self_attention({"text": TEXT, **asked})

    @pytest.mark.parametrize("off", [[[0, 9]], [[7, 0]], "x", [[0]], [[0, -1]]])
    def test_no_such_head(self, off: Any) -> None:
        with pytest.raises(FieldError):
            alignment({"off": off})


def test_a_link_restores_the_view(opened: Open) -> None:
    link = "#/heads?text=a+b+c&heads=2&d_model=4&seed=3&mask=causal&painted=[[0,2]]&off=[1]&head=1&cell=[2,1]"
    page = opened(link)
    assert page.tab.get_by_label("Mask", exact=True).input_value() == "causal"
    seen = np.tri(3, dtype=bool)
    seen[0, 2] = True
    np.testing.assert_allclose(table(page), numpys("a b c", 4, 2, seen, seed=3)["weights"][1], rtol=0, atol=1e-9)
    found = page.tab.evaluate(CELL)
    assert (found["row"], found["column"]) == ("2", "1")
    assert page.tab.locator(".tile.off").count() == 1
    page.tab.locator("[data-keep=link]").click()
    again = opened(page.tab.evaluate("navigator.clipboard.readText()").removeprefix(page.lab.origin + "/"))
    np.testing.assert_array_equal(table(again), table(page))


def test_back_goes_back_to_the_other_mode(opened: Open) -> None:
    page = opened("#/heads")
    page.tab.locator(".modes [data-mode=phrases]").click()
    page.tab.wait_for_selector(".written")
    page.tab.go_back()
    page.settle()
    assert table(page).shape == (6, 6)
    expect(page.tab.locator(".modes [data-mode=self]")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("options", [{}, {"locale": "zh-CN"}])
def test_a_phone_needs_no_sideways_scrolling(opened: Open, options: dict[str, Any]) -> None:
    page = opened("#/heads?mask=causal&off=[0]", viewport={"width": 390, "height": 844}, **options)
    for mode in ("self", "phrases", "dates"):
        page.tab.locator(f".modes [data-mode={mode}]").click()
        page.settle()
        page.tab.wait_for_selector(".lines")
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390


@needs_axe
@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark", "locale": "zh-CN"}])
def test_axe_finds_nothing_serious(opened: Open, options: dict[str, Any]) -> None:
    page = opened("#/heads?mask=causal&off=[1]&painted=[[0,0]]&cell=[1,1]", **options)
    table(page)
    assert page.violations() == []
    for mode in ("phrases", "dates"):
        page.tab.locator(f".modes [data-mode={mode}]").click()
        page.tab.wait_for_selector(".written")
        assert page.violations() == []


class TestKept:
    @pytest.mark.parametrize("link", ["#/heads?mask=causal&painted=[[0,3]]", "#/heads?mode=phrases&off=[[1,0]]"])
    def test_the_html_file_opens_from_disk_without_a_network(self, opened: Open, tmp_path: Path, link: str) -> None:
        page = opened(link)
        page.tab.wait_for_selector(".lines")
        numbers = table(page)
        page.from_disk(page.kept("page", tmp_path))
        tab = page.tab
        np.testing.assert_array_equal(table(page), numbers)
        tab.locator(".tile-pick[data-head='2']").last.click()
        assert not np.array_equal(table(page), numbers)
        tab.locator(".tile-switch").first.click()
        expect(tab.locator(".toast")).to_contain_text("saved page")
        tab.locator(".language").click()
        expect(tab.locator("h1")).to_have_text("每个头关注的内容不同")

    def test_svg_and_png(self, opened: Open, tmp_path: Path) -> None:
        page = opened("#/heads?mask=causal")
        drawn = page.kept("svg", tmp_path).read_text(encoding="utf-8")
        assert len(re.findall(r">\d\.\d{3}<", drawn)) == 4 * 36
        assert "light-dark" not in drawn
        assert "var(" not in drawn
        assert {url for url in re.findall(r"https?://[^\"<]+", drawn) if not url.startswith(page.lab.origin)} == {SVG}
        assert page.kept("png", tmp_path).read_bytes().startswith(b"\x89PNG")


class TestRemembered:
    def test_runs_are_remembered_within_a_bound(self) -> None:
        first = watch_text("dates", "3 May 2024")
        assert watch_text("dates", "3 May 2024") is first
        for day in range(1, RUNS + 2):
            watch_text("dates", f"{day} June 2025")
        assert remembered._watch.cache_info().currsize == RUNS
        assert watch_text("dates", "3 May 2024") is not first

    def test_many_threads_at_once(self) -> None:
        """Watching hooks into torch as a whole; runs side by side must not see each other."""
        found: dict[int, Any] = {}

        def ask(n: int) -> None:
            found[n] = alignment({"model": "dates", "text": f"{n + 1} May 2024", "off": [[1, n % 4]]})

        threads = [threading.Thread(target=ask, args=[n]) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for n in range(6):
            assert found[n]["written"] == f"2024年5月{n + 1}日"
            assert found[n] == alignment({"model": "dates", "text": f"{n + 1} May 2024", "off": [[1, n % 4]]})

    def test_what_cannot_be_packed_is_said(self) -> None:
        with pytest.raises(TypeError, match="one of the types float32, float64, uint8, bool, got int64"):
            encode_array(np.arange(3))
