"""The view Start: from opening the lab to the first own computation, in both languages, on a desktop and a phone."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import regard.training
from regard.lab import Lab
from regard.lab.models.trained_layers import LAYERS
from regard.lab.models.watched_models import watch_text
from regard.learn import Progress, find_drill, learning_path
from regard.learn.drills.matrices import format_answer
from support.lab_page import WORK_PATIENCE, Opened, needs_axe

Open = Callable[..., Opened]
STEPS = ["street", "reading", "translator", "formula", "row", "onward"]
PHONE = {"viewport": {"width": 390, "height": 844}}
DESKTOP = {"viewport": {"width": 1360, "height": 900}}
SENTENCE = "The cat sat on the mat"


def at(page: Opened, step: str) -> None:
    expect(page.tab.locator(".start-dot[aria-current=step]")).to_have_attribute("data-step", step)
    page.settle()


@needs_axe
@pytest.mark.parametrize(
    "options",
    [
        {**DESKTOP},
        {**PHONE, "locale": "zh-CN", "color_scheme": "dark", "reduced_motion": "reduce"},
    ],
    ids=["desktop", "phone"],
)
def test_one_path_from_opening_to_the_first_own_computation(opened: Open, lab: Lab, options: dict[str, Any]) -> None:
    page = opened("", **options)
    chinese, tab, keyboard = "locale" in options, page.tab, page.tab.keyboard
    expect(tab.locator("nav [aria-current=page]")).to_have_text("入门" if chinese else "Start")

    # 1 a street: another question and another weight change the mixture
    expect(tab.locator(".street")).to_contain_text("0.60")
    tab.get_by_role("button", name="可以向谁问路" if chinese else "Whom can I ask").click()
    expect(tab.locator(".street")).to_contain_text("0.85")
    tab.get_by_role("slider").first.fill("0.5")
    page.settle()
    weights = json.loads(tab.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('weights')"))
    np.testing.assert_allclose(weights, [0.5, 0.5 * 0.85 / 0.95, 0.5 * 0.1 / 0.95], atol=1e-3)
    shown = [float(x) for x in tab.locator(".mixed").evaluate_all("(all) => all.map((e) => e.dataset.mixed)")]
    np.testing.assert_allclose(shown, np.array([[0.9, 0.3, 0], [0.1, 1, 0], [0, 0.2, 1]]) @ weights, atol=1e-6)
    violations = page.violations()

    # 2 a page: the learner's own question; keys lead on
    tab.locator("h2").focus()
    keyboard.press("ArrowRight")
    at(page, "reading")
    tab.get_by_role("textbox").fill("灰猫在干什么" if chinese else "Is there a cat?")
    expect(tab.locator(".page-lines .best")).to_contain_text("灰猫" if chinese else "grey cat")
    lines = [float(x) for x in tab.locator(".page-lines li").evaluate_all("(all) => all.map((e) => e.dataset.weight)")]
    assert sum(lines) == pytest.approx(1)
    assert lines.index(max(lines)) == 0
    violations += page.violations()

    # 3 the translator writes
    tab.locator(".start-next").click()
    at(page, "translator")
    tab.wait_for_selector(".lines path", state="attached", timeout=WORK_PATIENCE)
    tab.locator("[data-do=all]").evaluate("(button) => button.click()")  # with reduced motion all is there already
    expect(tab.locator(".written")).to_have_text("猫坐在垫子上")
    assert tab.locator("text.query").all_text_contents() == ["猫", "坐", "在", "垫子", "上", "<end>"]
    violations += page.violations()

    # 4 the numbers of one row are the model's
    tab.locator(".start-next").click()
    at(page, "formula")
    tab.wait_for_selector(".formula-table", timeout=WORK_PATIENCE)
    room, needed = tab.locator(".formula-card .table-scroll").evaluate("(e) => [e.clientWidth, e.scrollWidth]")
    assert needed <= room  # all four stages are in sight
    for word in (0, 2):
        tab.locator(f"[data-word='{word}']").click()
        weights = [float(x) for x in tab.locator("[data-weight]").evaluate_all("(e) => e.map((x) => x.dataset.weight)")]
        cross = [call for call in watch_text("phrases", SENTENCE).seen.calls if call.name == LAYERS["cross-2"][1]]
        np.testing.assert_allclose(weights, cross[0].weights(batch=0)[2, word].numpy(), atol=1e-5)
    violations += page.violations()

    # 5 one row by hand, with the drills' own check
    tab.locator(".start-next").click()
    at(page, "row")
    tab.wait_for_selector(".step.now input")
    name = tab.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('drill')")
    for count, answer in enumerate(find_drill(name).answers().values(), 1):
        tab.locator(".step.now input").first.focus()
        for cell in re.split("[,;]", format_answer(answer)):
            keyboard.type(cell.strip())
            keyboard.press("Enter")
        expect(tab.locator(".step.right")).to_have_count(count)
    expect(tab.locator(".drill-end .right")).to_be_visible()
    violations += page.violations()

    # 6 exercise 02, and the stage is recorded
    tab.locator("[data-do=onward]").click()
    at(page, "onward")
    assert tab.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"]
    violations += page.violations()
    assert violations == []
    expect(tab.locator("[data-stage=intuition].done")).to_have_count(1)
    progress = Progress.load(Path(str(lab.settings.data)) / "learn.json")
    assert {stage.name for stage in learning_path(progress) if stage.done} >= {"intuition", "hand"}
    tab.locator(".onward-exercise").click()
    expect(tab.locator(".path a[aria-current]")).to_have_attribute("data-stage", "code")
    expect(tab.locator(".part-exercises h2").first).to_be_visible()


def test_every_step_fits_and_other_sentences_work(opened: Open) -> None:
    page = opened("#/start?step=translator&text=The%20dog%20slept", **DESKTOP)
    page.tab.wait_for_selector(".lines path", state="attached", timeout=WORK_PATIENCE)
    page.tab.locator("[data-do=all]").click()
    run = regard.training.load("phrases")
    expect(page.tab.locator(".written")).to_have_text(run.generate("The dog slept"))
    field = page.tab.get_by_role("textbox")
    for text, error in (("   ", "at least one word"), ("zzz", "None of these occurred")):
        field.fill(text)
        expect(page.tab.locator(".field-message")).to_contain_text(error)
    field.fill("The dog sat on the table")
    expect(page.tab.locator(".field-message")).to_be_hidden()
    page.settle()
    page.tab.locator("[data-do=all]").click()
    expect(page.tab.locator(".written")).to_have_text(run.generate("The dog sat on the table"))
    page.follow("#/start?step=formula&text=The%20dog%20slept&layer=1&head=2&word=1")
    page.tab.wait_for_selector(".formula-table", timeout=WORK_PATIENCE)
    page.settle()
    link = page.tab.locator(".start-moral a").get_attribute("href") or ""
    shown = page.tab.locator("[data-weight]").evaluate_all("(all) => all.map((e) => e.dataset.weight)")
    page.go(link)
    page.tab.wait_for_selector(".part-result td", timeout=WORK_PATIENCE)
    row = page.tab.locator(".part-result td[data-row='1']").evaluate_all("(all) => all.map((e) => e.dataset.value)")
    assert row == shown  # the same numbers in Trace
    # Broken values in a link do not break a step.
    for bad in ("step=x&weights=[2,2]", "step=row&drill=x&answers={}", "step=formula&layer=9&head=-1&word=99"):
        page.go(f"#/start?{bad}")
        page.settle()
        expect(page.tab.locator(".start-body")).to_be_visible()


def test_the_path_shows_position_and_next_step(opened: Open, lab: Lab) -> None:
    page = opened("#/heads")
    assert page.tab.locator(".path").is_hidden()
    for link, here, following in (
        ("#/start", "intuition", "#/trace"),
        ("#/trace?weights=random", "formula", "#/practice?tab=drills"),
        ("#/practice?tab=drills", "hand", "#/practice?tab=exercises&exercise=02-one-query"),
        ("#/practice?tab=interview", "interview", None),
    ):
        page.follow(link)
        expect(page.tab.locator(".path a[aria-current]")).to_have_attribute("data-stage", here)
        page.settle()  # a new drill writes its name into the link
        after = page.tab.locator(".path-next")
        assert (after.get_attribute("href") if after.count() else None) == following
    page.follow("#/trace?weights=random&step=merge")
    page.tab.locator("main").focus()
    page.tab.keyboard.press("ArrowRight")
    expect(page.tab.locator("[data-stage=formula].done")).to_have_count(1)
    page.follow("#/practice?tab=progress")
    expect(page.tab.locator(".path a[aria-current]")).to_have_count(0)
    expect(page.tab.locator("[data-stage=formula].done")).to_have_count(1)  # stored with the learner's progress
    assert "formula" in Progress.load(Path(str(lab.settings.data)) / "learn.json").path


def test_a_saved_introduction_opens_from_disk(opened: Open, tmp_path: Path) -> None:
    page = opened("#/start?step=formula", reduced_motion="reduce")
    page.tab.wait_for_selector(".formula-table", timeout=WORK_PATIENCE)
    shown = page.tab.locator("[data-weight]").all_inner_texts()
    requests = page.from_disk(page.kept("page", tmp_path))
    assert page.tab.locator("[data-weight]").all_inner_texts() == shown
    assert page.tab.locator(".path").is_hidden()
    assert not [url for url in requests if url.startswith("http")]


def test_reading_list_names_texts_and_links_nowhere(static: Path) -> None:
    for language in ("en", "zh"):
        texts = json.loads((static / "text" / f"start.{language}.json").read_text(encoding="utf-8"))
        titles = {key.partition(".")[2] for key in texts if key.startswith("text-title.")}
        assert {"vaswani", "illustrated", "bert", "gpt1", "gpt2", "gpt3", "llama", "rotary"} <= titles
        assert all(f"text-look.{name}" in texts and f"text-by.{name}" in texts for name in titles)
        assert not re.search(r"https?://", json.dumps(texts))


def test_stages_are_recorded_once(tmp_path: Path) -> None:
    progress = Progress.load(tmp_path / "learn.json")
    first, later = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
    progress.record_stage("break", first)
    progress.record_stage("break", later)
    assert Progress.load(progress.file).path == {"break": {"done": "2026-01-01T00:00:00+00:00"}}
    with pytest.raises(ValueError, match="the recorded stages are intuition, formula, break, got 'code'"):
        progress.record_stage("code", first)
