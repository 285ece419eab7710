"""The view Claims: what it tells is what `regard.claims` reads, judges and measures."""

import json
import os
import re
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from regard.claims import NAMES, SHIPPED, claim_named, read
from regard.claims.charts.labels import label
from regard.claims.result import stored_conclusion
from regard.claims.statistics.confidence_intervals import interval
from regard.lab.api.claims import all_claims, run_claim
from regard.lab.server.job_queue import Job, JobStopped
from support.lab_page import WORK_PATIENCE, Opened, needs_axe

Open = Callable[..., Opened]
Results = dict[str, dict[str, Any]]
WHOLE = ("scale", "learned-mean", "mask", "errata")


def told(folder: Path) -> Results:
    return {one["name"]: one for one in json.loads(json.dumps(all_claims({}, folder)["claims"], allow_nan=False))}


# ---- what the server tells -----------------------------------------------------------------------------------------


def test_verdicts_and_figures_are_those_of_the_rules(results: Path) -> None:
    found = told(results)
    assert tuple(found) == NAMES
    for name in WHOLE:
        judgement, result = stored_conclusion(claim_named(name), results)
        assert judgement is not None
        assert result is not None
        one = found[name]
        assert (one["state"], one["verdict"]) == ("judged", judgement.verdict.replace(" ", "-"))
        assert one["sentence"] == judgement.sentence
        assert [each["value"] for each in one["figures"]] == [figure.value for figure in judgement.figures]
        assert [each["low"] for each in one["figures"]] == [figure.low for figure in judgement.figures]
        shown = [" ".join(filter(None, [e["text"], e["between"] and f"({e['between']})"])) for e in one["figures"]]
        assert shown == [str(figure) for figure in judgement.figures]
        assert one["result"]["command"] == result.command
        assert one["result"]["machine"] == result.machine


def test_the_plots_are_means_of_the_rows(results: Path) -> None:
    (plot,) = told(results)["learned-mean"]["chart"]["panels"]
    rows = read(results / "learned-mean.json").rows
    for series in plot["series"]:
        for place, mean, low, high in series["points"]:
            own = [row for row in rows if (label(row["way"]), row["task"]) == (series["name"], place)]
            seeds = [row["accuracy"] for row in own]
            assert mean == pytest.approx(statistics.fmean(seeds), abs=1e-12)
            assert (low, high) == pytest.approx(interval(seeds, "share")[1:], abs=1e-9)


def test_what_has_no_result_says_why(results: Path) -> None:
    found = told(results)
    assert found["positions"]["state"] == "not-run"
    assert "result" not in found["positions"]
    assert found["softmax"]["state"] == "unfinished"
    assert (found["softmax"]["result"]["parts"], "verdict" in found["softmax"]) == (3, False)
    assert found["quadratic"]["state"] == "unreadable"
    assert "is not a result file of a claim" in found["quadratic"]["why"]


def test_own_results_come_before_the_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims").mkdir()
    shipped = read(SHIPPED / "mask.json")
    first, *others = shipped.parts
    own = replace(shipped, parts=(replace(first, seconds=first.seconds + 1), *others))
    own.save(tmp_path / "claims" / "mask.json")
    found = {one["name"]: one for one in all_claims({})["claims"]}
    assert found["mask"]["result"]["shipped"] is False
    assert found["scale"]["result"]["shipped"] is True


def test_a_small_run_that_is_stopped_is_ended() -> None:
    def running() -> list[str]:
        every = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True).stdout
        return [one for one in every.splitlines() if one.split()[0] == str(os.getpid()) and "claims run" in one]

    class Watched(Job):
        def report(self, **progress: Any) -> None:
            assert len(running()) == 1
            self.stop_requested.set()
            super().report(**progress)

    with pytest.raises(JobStopped):
        run_claim("scale", Watched())
    assert running() == []


# ---- what the page shows -------------------------------------------------------------------------------------------


def open_claims(opened: Open, asked: str = "", **options: Any) -> Opened:
    page = opened(f"#/claims{asked}", **options)
    expect(page.tab.locator(".claims-tab").first).to_be_visible()
    return page


def figures(page: Opened) -> list[float]:
    rows = page.tab.locator(".claims-one > .claims-part tr[data-value]").all()
    return [float(row.get_attribute("data-value") or "nan") for row in rows]


def shown(page: Opened) -> Locator:
    return page.tab.locator("[role=tab][aria-selected=true]")


def test_every_claim_with_its_verdict_to_choose_by(opened: Open, results: Path) -> None:
    page = open_claims(opened)
    tabs = page.tab.locator(".claims-tab")
    assert [tab.get_attribute("data-claim") for tab in tabs.all()] == list(NAMES)
    for name in WHOLE:
        judgement, _ = stored_conclusion(claim_named(name), results)
        assert judgement is not None
        expect(page.tab.locator(f"[data-claim={name}] .claims-stands")).to_have_text(judgement.verdict_in_words["en"])
    verdict = stored_conclusion(claim_named("errata"), results)[0]
    assert verdict is not None
    page.tab.locator(f"[data-stands={verdict.verdict.replace(' ', '-')}]").click()
    expect(page.tab.locator("[data-claim=errata]")).to_be_visible()
    expect(page.tab.locator("[data-claim=positions]")).to_have_count(0)
    page.tab.locator("[data-stands=not-run]").click()
    expect(tabs).to_have_count(len(NAMES) - len(WHOLE))
    expect(shown(page)).to_have_attribute("data-claim", "linear-last-dim")
    page.tab.go_back()
    expect(page.tab.locator("[data-claim=errata]")).to_be_visible()
    page.tab.locator("[data-stands=all]").click()
    expect(tabs).to_have_count(len(NAMES))


def test_the_page_starts_with_a_table_of_all_claims(opened: Open, results: Path) -> None:
    page = open_claims(opened, "?claim=scale")
    lines = page.tab.locator(".claims-overview tbody tr")
    expect(lines).to_have_count(len(NAMES))
    judgement, result = stored_conclusion(claim_named("mask"), results)
    assert judgement is not None
    assert judgement.effect is not None
    assert result is not None
    line = page.tab.locator("[data-overview=mask]")
    for words in (judgement.verdict_in_words["en"], str(judgement.effect).partition(" (")[0], result.command):
        expect(line).to_contain_text(words)
    expect(page.tab.locator("[data-overview=positions]")).to_contain_text("regard claims run positions")
    line.get_by_role("link").click()
    expect(page.tab.locator(".claims-one h2")).to_have_text("The causal mask hides the future")
    answers = [one.answer for one in judgement.findings]
    expect(page.tab.locator(".claims-one > .claims-part .claims-answer")).to_have_text(answers)


def test_arrows_lead_through_the_list(opened: Open, results: Path) -> None:
    page = open_claims(opened, "?claim=learned-mean")
    shown(page).focus()
    page.tab.keyboard.press("ArrowUp")
    expect(page.tab.locator(".claims-one h2")).to_have_text("Softmax must subtract the maximum")
    page.tab.keyboard.press("End")
    expect(shown(page)).to_be_focused()
    expect(shown(page)).to_have_attribute("data-claim", "errata")
    for _ in range(3):  # and round
        page.tab.keyboard.press("ArrowDown")
    expect(shown(page)).to_have_attribute("data-claim", "scale")
    page.settle()
    assert "claim=scale" in page.tab.url
    judgement, result = stored_conclusion(claim_named("scale"), results)
    assert judgement is not None
    assert result is not None
    assert figures(page) == pytest.approx([figure.value for figure in judgement.figures], abs=1e-9)
    text = re.sub(r"\s", "", page.tab.locator(".claims-one").inner_text())
    for words in (judgement.sentence["en"], result.command, str(result.machine["processor"])):
        assert re.sub(r"[_\s]", "", words) in text  # d_k is set with its k below


def test_marks_stand_where_the_numbers_are(opened: Open, results: Path) -> None:
    page = open_claims(opened, "?claim=scale")
    variance = told(results)["scale"]["chart"]["panels"][0]
    drawn = page.tab.locator(".plot").first.locator(".series")
    places = np.array(
        [
            [
                [float(x) for x in re.findall(r"[\d.]+", mark.get_attribute("transform") or "")]
                for mark in one.locator(".mark").all()
            ]
            for one in drawn.all()
        ]
    )
    for axis, column in ((0, 0), (1, 1)):  # both axes are logarithmic
        values = np.log([[point[column] for point in series["points"]] for series in variance["series"]])
        slope, start = np.polyfit(values.ravel(), places[..., axis].ravel(), 1)
        np.testing.assert_allclose(slope * values + start, places[..., axis], atol=0.2)
        assert slope > 0 if axis == 0 else slope < 0
    page.tab.locator(".plot").first.locator(".mark").last.hover()
    expect(page.tab.locator(".plot-reading")).to_contain_text("not divided · 1024")


def test_what_was_not_run_gives_the_command(opened: Open) -> None:
    page = open_claims(opened, "?claim=positions")
    box = page.tab.locator(".claims-verdict")
    expect(box).to_contain_text("Undecided: not run")
    expect(page.tab.locator(".plot")).to_have_count(0)
    box.get_by_role("button").click()
    expect(page.tab.locator(".toast")).to_be_visible()
    assert page.tab.evaluate("navigator.clipboard.readText()") == "regard claims run positions"
    page.tab.locator("[data-claim=softmax]").click()
    expect(box).to_contain_text("3 of")
    page.tab.locator("[data-claim=quadratic]").click()
    expect(box).to_contain_text("is not a result file of a claim")
    for asked in ("?claim=nothing&verdict=x", "?verdict=holds-when&claim=positions&ran=[1]"):
        page.go(f"#/claims{asked}")
        expect(page.tab.locator(".claims-one h2")).to_be_visible()


def test_a_small_run_and_a_file_that_opens_without_a_network(opened: Open, tmp_path: Path) -> None:
    page = open_claims(opened, "?claim=mask&verdict=holds")
    numbers = figures(page)
    page.tab.locator("[data-do=run]").click()
    expect(page.tab.locator("[data-do=stop]")).to_be_visible()
    tried_here = page.tab.locator(".claims-tried")
    expect(tried_here).to_be_visible(timeout=WORK_PATIENCE)
    expect(tried_here.locator(".bar")).to_have_count(4)
    assert figures(page) == numbers  # the stored result stays
    small = tried_here.locator(".value").all_inner_texts()
    svg = page.kept("svg", tmp_path).read_text(encoding="utf-8")
    assert "The causal mask hides the future" in svg
    assert svg.count('class="bar"') == 4
    assert page.kept("png", tmp_path).stat().st_size > 20_000
    asked = page.from_disk(page.kept("page", tmp_path))
    expect(page.tab.locator(".claims-one h2")).to_have_text("The causal mask hides the future")
    assert figures(page) == numbers
    assert page.tab.locator(".claims-tried .value").all_inner_texts() == small
    page.tab.locator("[data-stands=all]").click()
    page.tab.locator("[data-claim=errata]").click()  # every claim is in the file
    expect(page.tab.locator(".claims-chart tbody tr")).to_have_count(13)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@needs_axe
@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark", "locale": "zh-CN"}])
def test_axe_finds_nothing_serious(opened: Open, options: dict[str, Any]) -> None:
    page = open_claims(opened, "?claim=learned-mean", **options)
    page.tab.locator(".claims-numbers summary").click()
    assert page.violations() == []
    page.tab.locator("[data-claim=errata]").click()
    assert page.violations() == []
