"""The page, opened in a browser: what it draws, what it says of a cell, and how it answers keys."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Page as Tab

import regard
from regard.attention.reference import numpy_attention as reference
from regard.pictures import Factors, attention_page
from regard.pictures.page import encoding
from regard.watching import Recording
from regard.watching.recording import Unseen
from support.lab_page import AXE, CHROMIUM, FLAGS

in_browser = pytest.mark.skipif(not CHROMIUM, reason="CHROMIUM IS MISSING, NO PAGE IS TESTED: apt-get install chromium")
TOKENS = ["The", "cat", "sat", "</script>", "猫", " ", "$x$", "<b>"]


def random_weights(layers: int = 2, heads: int = 3, size: int = 8) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(size), size=(layers, heads, size))


class TestCodes:
    @given(st.floats(1e-70, 1.0))
    def test_codes_are_the_three_digits_that_python_writes(self, x: float) -> None:
        code = int(encoding.three_digits(np.array([x]))[0])
        exponent, digits = divmod(code - 1, 900)
        written = float(f"{digits + 100}e{exponent - 71 - 2}")
        assert (
            written == pytest.approx(float(f"{x:.3g}"), rel=1e-12)
            or abs(written - x) <= abs(float(f"{x:.3g}") - x) * 1.001
        )

    def test_codes_at_the_ends_of_the_range(self) -> None:
        codes = encoding.three_digits(np.array([0.0, 1e-72, 9.995e-5, 9.994e-5, 0.0001, 1.0, 0.03125]))
        assert codes[0] == codes[1] == 0
        assert codes[2] == codes[4] == codes[3] + 1
        assert codes.max() < 2**16

    def test_factors_are_the_weights_of_the_reference(self) -> None:
        rng = np.random.default_rng(0)
        q, k = rng.normal(size=(4, 5, 3)), rng.normal(size=(2, 7, 3))
        seen = rng.random((5, 7)) < 0.5
        seen[2] = False
        layer = Factors(q, k, visible=seen)
        expected = reference.attention(q, np.repeat(k, 2, 0), np.repeat(k, 2, 0), seen, weights=True)[1]
        np.testing.assert_allclose([layer.weights(h) for h in range(4)], expected, atol=1e-12)

    @pytest.mark.parametrize("strength", [0.0, 1.0, 8.0])
    def test_corrections_are_one_digit_and_few(self, strength: float) -> None:
        rng = np.random.default_rng(0)
        q, k = strength * rng.normal(size=(96, 8)), rng.normal(size=(96, 8))
        about, parts = encoding.encode_factors(encoding.softmax(q @ k.T, None), q, k, 1.0, None)
        changed = np.unpackbits(np.frombuffer(parts[-2], np.uint8)).mean()
        assert changed < 0.15
        assert about["rank"] <= 8


class TestFile:
    def test_the_file_is_complete_and_needs_no_other(self, tmp_path: Path) -> None:
        page = attention_page(random_weights(), TOKENS, title="A & B <i>")
        text = page.save(tmp_path / "x.html").read_text(encoding="utf-8")
        assert "<title>A &amp; B &lt;i&gt;</title>" in text
        assert not re.search(r"https?://", text)
        assert not re.search(r"<(link|script)[^>]+(src|href)=\"(?!data:)", text)
        assert "srcdoc" in page._repr_html_()

    @pytest.mark.parametrize(
        ("layers", "options", "message"),
        [
            ([], {}, "layers must hold weights"),
            (np.ones((2, 1, 2, 2)), {"tokens": [["a", "b"]]}, "one list of names for each of 2 layers, got 1"),
            (np.ones((1, 1, 2, 2)), {"tokens": ["a"]}, "got 1 names for 2"),
            (np.full((1, 1, 2, 2), np.nan), {}, "must be finite, got nan at layer 0, head 0, query 0, key 0"),
            (np.ones((1, 1, 2, 2)), {"names": ["a", "b"]}, "got 2 names for 1 layers"),
        ],
    )
    def test_mistakes_are_named(self, layers: list, options: dict, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            attention_page(layers, **options)

    def test_other_endings_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"saved as \.html, got 'x\.png'"):
            attention_page(random_weights()).save(tmp_path / "x.png")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Opened:
    """A page in the browser, with every complaint the browser made."""

    def __init__(self, browser: Browser, file: Path, width: int = 1200, scheme: str = "light") -> None:
        self.tab: Tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.complaints: list[str] = []
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.complaints.append(request.url) if "http" in request.url else None)
        self.tab.goto(file.as_uri())
        self.tab.wait_for_selector("html[data-ready]", timeout=20_000)

    @property
    def said(self) -> str:
        return self.tab.locator("#value").inner_text()

    @property
    def number(self) -> float:
        return float(self.said.rsplit(": ", 1)[1])

    def hover(self, query: int, key: int) -> None:
        """Move the pointer over a cell, wherever the page has drawn it."""
        x, y = self.tab.evaluate(
            "([query, key]) => { const { margin, left, top, cell } = map.view();"
            " return [margin.left + (key + 0.5 - left) * cell, margin.top + (query + 0.5 - top) * cell]; }",
            [query, key],
        )
        box = self.tab.locator("#map").bounding_box()
        self.tab.mouse.move(box["x"] + 1 + x, box["y"] + 1 + y)

    def all_texts(self, head: int) -> list[str]:
        """What hovering would say of every cell of a head."""
        return self.tab.evaluate(
            "async (h) => { const f = await headNumbered(h); return Array.from(f.values, (_, i) => f.text(i)); }", head
        )


@pytest.fixture
def small(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(browser, attention_page(random_weights(), TOKENS, title="small").save(tmp_path / "x.html"))
    yield opened
    assert opened.complaints == []
    opened.tab.close()


def three(x: float) -> float:
    return float(f"{x:.3g}")


@in_browser
class TestInBrowser:
    def test_hover_names_the_pair_and_its_value(self, small: Opened) -> None:
        weights = random_weights()
        small.hover(4, 3)
        assert small.said.startswith("query 4 “猫” → key 3 “</script>”: ")
        assert three(small.number) == three(weights[0, 0, 4, 3])
        small.hover(0, 5)
        assert small.said.startswith("query 0 “The” → key 5 “␣”: ")
        assert three(small.number) == three(weights[0, 0, 0, 5])

    def test_keys_move_the_cell_and_zoom(self, small: Opened) -> None:
        weights = random_weights()
        small.tab.locator("#map").focus()
        small.tab.keyboard.press("ArrowDown")
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowRight", "ArrowUp"):
            small.tab.keyboard.press(key)
        assert small.said.startswith("query 1 “cat” → key 1 “cat”")
        assert three(small.number) == three(weights[0, 0, 1, 1])
        before = small.tab.evaluate("map.view().cell")
        small.tab.keyboard.press("+")
        assert small.tab.evaluate("map.view().cell") > before
        small.tab.keyboard.press("Shift+ArrowRight")
        assert small.said.startswith("query 1 “cat” → key 7 “<b>”")
        small.tab.keyboard.press("-")
        small.tab.keyboard.press("0")
        assert small.tab.evaluate("map.view().cell") == pytest.approx(before)

    def test_layers_may_be_over_different_tokens(self, browser: Browser, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        own, cross = rng.dirichlet(np.ones(3), size=(2, 3)), rng.dirichlet(np.ones(5), size=(2, 2))
        source, target = ["a", "b", "c", "d", "e"], ["猫", "坐"]
        page = attention_page([own, cross], [["x", "y", "z"], target], [None, source], names=["own", "cross"])
        opened = Opened(browser, page.save(tmp_path / "x.html"))
        opened.hover(2, 1)
        assert opened.said.startswith("query 2 “z” → key 1 “y”: ")
        opened.tab.get_by_role("button", name="cross, head 1").click()
        opened.tab.wait_for_function("document.getElementById('one-title').textContent === 'cross, head 1'")
        opened.hover(1, 4)
        assert opened.said.startswith("query 1 “坐” → key 4 “e”: ")
        assert three(opened.number) == three(cross[1, 1, 4])
        opened.tab.get_by_role("button", name="own, head 0").click()
        opened.tab.wait_for_function("document.getElementById('one-title').textContent === 'own, head 0'")
        opened.hover(2, 2)
        assert three(opened.number) == three(own[0, 2, 2])
        assert opened.complaints == []
        opened.tab.close()

    def test_heads_are_previewed_and_kept(self, small: Opened) -> None:
        weights = random_weights()
        title = small.tab.locator("#one-title")
        small.hover(2, 2)
        small.tab.get_by_role("button", name="layer 1, head 2").hover()
        small.tab.wait_for_function("document.getElementById('one-title').textContent === 'layer 1, head 2 (preview)'")
        assert three(small.number) == three(weights[1, 2, 2, 2])
        small.tab.mouse.move(5, 5)
        small.tab.wait_for_function("document.getElementById('one-title').textContent === 'layer 0, head 0'")
        small.tab.get_by_role("button", name="layer 1, head 2").click()
        small.tab.mouse.move(5, 5)
        small.tab.wait_for_timeout(50)
        assert title.inner_text() == "layer 1, head 2"
        assert small.tab.locator("#thumbs [aria-pressed=true]").get_attribute("aria-label") == "layer 1, head 2"

    def test_heads_by_keyboard(self, small: Opened) -> None:
        small.tab.locator("#theme").focus()
        small.tab.keyboard.press("Tab")
        for key in ("ArrowRight", "ArrowDown", "Enter"):
            small.tab.keyboard.press(key)
        small.tab.wait_for_function("document.getElementById('one-title').textContent === 'layer 1, head 1'")
        assert small.tab.locator("#map").get_attribute("aria-label").startswith("Attention weights of layer 1, head 1")

    def test_wheel_zooms_and_drag_moves(self, small: Opened) -> None:
        small.hover(4, 4)
        small.tab.mouse.wheel(0, -800)
        small.tab.wait_for_function("map.view().cell > map.view().whole * 1.5")
        before = small.tab.evaluate("map.view().left")
        said = small.said
        small.tab.mouse.down()
        box = small.tab.locator("#map").bounding_box()
        small.tab.mouse.move(box["x"] + 200, box["y"] + 300)
        small.tab.mouse.up()
        assert small.tab.evaluate("map.view().left") != before
        assert said.startswith("query 4 “猫” → key 4 “猫”")

    def test_the_pixels_are_the_weights_colours(self, small: Opened) -> None:
        from regard.pictures import colour_table

        weights = random_weights()[0, 0]
        cells = [(0, 0), (3, 6), [int(i) for i in np.unravel_index(weights.argmax(), weights.shape)]]
        pixels = small.tab.evaluate(
            """(cells) => {
              const { width, height } = map.canvas;
              const { data } = map.canvas.getContext("2d").getImageData(0, 0, width, height);
              const { margin, left, top, cell } = map.view();
              return cells.map(([query, key]) => {
                const x = Math.round(margin.left + (key + 0.1 - left) * cell);
                const y = Math.round(margin.top + (query + 0.1 - top) * cell);
                return Array.from(data.slice(4 * (y * width + x), 4 * (y * width + x) + 3));
              });
            }""",
            cells,
        )
        expected = [colour_table("light")[round(255 * weights[tuple(cell)] / weights.max())] for cell in cells]
        np.testing.assert_allclose(pixels, expected, atol=6)

    def test_the_theme_follows_the_system_and_the_button(self, small: Opened) -> None:
        assert small.tab.evaluate("document.documentElement.dataset.theme") == "light"
        small.tab.locator("#theme").click()
        assert small.tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"

    def test_the_page_fits_a_phone_with_dark_theme(self, browser: Browser, tmp_path: Path) -> None:
        file = attention_page(random_weights(12, 12), TOKENS).save(tmp_path / "x.html")
        opened = Opened(browser, file, width=390, scheme="dark")
        assert opened.tab.evaluate("document.documentElement.dataset.theme") == "dark"
        assert opened.tab.evaluate("document.documentElement.scrollWidth") <= 390
        assert opened.tab.locator("#thumbs button").last.bounding_box()["x"] < 390
        assert opened.complaints == []
        opened.tab.close()

    @pytest.mark.parametrize("way", ["factors", "digits"])
    def test_every_value_of_a_large_page_is_right_to_three_digits(
        self, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        monkeypatch.setattr(encoding, "EXACT_UP_TO", 0)
        rng = np.random.default_rng(0)
        q, k = 2 * rng.normal(size=(2, 100, 16)), rng.normal(size=(1, 120, 16))
        seen = np.tri(100, 120, 20, dtype=bool)
        seen[7] = False  # an empty row
        layer = Factors(q, k, visible=seen)
        true = np.stack([layer.weights(h) for h in range(2)])
        page = attention_page([layer if way == "factors" else true])
        assert f'"way": "{way}"' in page.html
        opened = Opened(browser, page.save(tmp_path / "x.html"))
        for h in range(2):
            shown = [float(text) for text in opened.all_texts(h)]
            np.testing.assert_array_equal(shown, [three(w) for w in true[h].ravel()])
        assert opened.complaints == []
        opened.tab.close()


def recorded(batch: int = 2, scale: float = 1.0) -> Recording:
    torch.manual_seed(0)
    layer = regard.nn.MultiHeadAttention(16, 2)
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(scale * torch.randn(batch, 8, 16))
    return seen


@in_browser
class TestRecordings:
    def test_findings_lead_to_their_batch_item_and_cell(self, browser: Browser, tmp_path: Path) -> None:
        seen = recorded()
        seen.unseen.append(Unseen("pooling.attention", "no product was found"))
        seen.notes.append("ran uncompiled")
        findings = seen.check(padding=[[1] * 8, [1] * 6 + [0] * 2])
        [finding] = findings
        page = Opened(browser, seen.save(tmp_path / "x.html", [TOKENS, TOKENS[::-1]], findings=findings))
        assert page.tab.locator(".remarks li").all_inner_texts() == [
            "Not seen: pooling.attention: no product was found",
            "Note: ran uncompiled",
        ]
        assert page.tab.locator(".findings li").inner_text().replace("\n", " ").endswith(finding.message)
        page.tab.locator(".findings button").click()
        page.tab.wait_for_function("document.getElementById('value').textContent.startsWith('query')")
        assert page.tab.locator("#item").input_value() == "1"
        name = TOKENS[::-1][finding.key]
        assert f"→ key {finding.key} “{name}”" in page.said
        weights = seen.calls[0].weights(batch=1, head=finding.head)
        assert three(page.number) == three(float(weights[finding.query, finding.key]))
        assert page.complaints == []
        page.tab.close()

    def test_statistics_follow_the_head_and_the_batch_item(self, browser: Browser, tmp_path: Path) -> None:
        seen = recorded(batch=3)
        page = Opened(browser, seen.save(tmp_path / "x.html"), width=400, scheme="dark")
        read = "[...document.querySelectorAll('#statistics td')].slice(1).map((cell) => cell.textContent)"
        keys = ("entropy", "distance", "spread", "sink", "no_key", "empty")
        for item in (0, 2):
            page.tab.locator("#item").select_option(str(item))
            for head in (1, 0):
                page.tab.get_by_role("button", name=f"head {head}").first.click()
                page.tab.wait_for_function(f"document.getElementById('one-title').textContent.endsWith('head {head}')")
                row = seen.summary(batch=item)[head]
                expected = [f"{row[key]:.2f}".replace("-", "−").replace("−0.00", "0.00") for key in keys]
                assert page.tab.evaluate(read) == expected
        page.tab.locator("#all summary").click()
        page.tab.get_by_role("button", name="entropy").click()
        column = [float(cell) for cell in page.tab.locator("#table tbody td:nth-of-type(1)").all_inner_texts()]
        assert column == sorted(column, reverse=True)
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= 400
        if AXE.exists():
            page.tab.evaluate(AXE.read_text(encoding="utf-8"))
            found = page.tab.evaluate("axe.run(document).then(({ violations }) => violations.map(({ id }) => id))")
            assert found == []
        assert page.complaints == []
        page.tab.close()

    def test_two_runs_side_by_side(self, browser: Browser, tmp_path: Path) -> None:
        first, second = recorded(1), recorded(1, scale=3.0)
        page = Opened(browser, first.save(tmp_path / "x.html", TOKENS, other=second))
        change = first.compare(second)[0]
        assert page.tab.locator("#one-title").inner_text().endswith(f"head {change['head']}")
        assert page.tab.locator("#maps canvas").count() == 2
        assert page.tab.locator("#thumbs button").count() == 4
        changes = page.tab.locator("#statistics tbody tr:last-child td").all_inner_texts()
        assert changes[0] == f"{change['entropy']:+.2f}".replace("-", "−")
        page.hover(4, 3)
        numbers = [float(seen.calls[0].weights(batch=0, head=change["head"])[4, 3]) for seen in (first, second)]
        found = re.findall(r": ([\d.e-]+)", page.said)
        assert [three(float(x)) for x in found] == [three(x) for x in numbers]
        assert page.complaints == []
        page.tab.close()


BERT = """
import sys
import numpy as np
from regard.pictures import Factors, attention_page
rng = np.random.default_rng(0)
layers = [Factors(rng.normal(size=(12, 512, 64)), rng.normal(size=(12, 512, 64))) for _ in range(12)]
attention_page(layers, [f"w{i}" for i in range(512)], title="12 × 12 × 512").save(sys.argv[1])
"""


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """Written by a process of its own with one thread: NumPy's threads would wait for those of other tests."""
    path = tmp_path / "bert.html"
    one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", BERT, str(path)], check=True, env=os.environ | one)
    return path


@in_browser
def test_twelve_layers_of_twelve_heads_over_512_tokens(bert: Path, browser: Browser) -> None:
    assert bert.stat().st_size <= 25_000_000
    opened = Opened(browser, bert)
    ready = int(opened.tab.evaluate("document.documentElement.dataset.ready"))
    rng = np.random.default_rng(0)
    first = Factors(rng.normal(size=(12, 512, 64)), rng.normal(size=(12, 512, 64)))
    shown = [float(text) for text in opened.all_texts(7)]
    np.testing.assert_array_equal(shown, [three(w) for w in first.weights(7).ravel()])
    opened.hover(300, 200)
    query, key = map(int, re.findall(r"(?:query|key) (\d+)", opened.said))
    assert opened.number == three(first.weights(0)[query, key])
    assert opened.complaints == []
    opened.tab.close()
    assert ready > 0  # drawn; how fast is for a benchmark to say, not for a test
