"""The view Cost on the real page: its numbers, its chart, what is measured, and the corrected figures."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.costs import Recurrent, cost
from regard.lab.api.cost import LENGTHS, VARIANTS, predict
from regard.lab.server.request_fields import FieldError
from support.lab_page import WORK_PATIENCE, Opened

Open = Callable[..., Opened]


def open_cost(opened: Open, asked: str = "", **options: Any) -> Opened:
    page = opened(f"#/cost{asked}", **options)
    expect(page.tab.locator(".cost-all tbody tr")).to_have_count(len(LENGTHS))
    return page


def shown(page: Opened, variant: str, kind: str) -> list[int]:
    cells = page.tab.locator(f".cost-all td[data-variant={variant}][data-kind={kind}]")
    return [int(value) for value in cells.evaluate_all("(all) => all.map((cell) => cell.dataset.value)")]


def test_the_numbers_are_those_of_regard_cost(opened: Open) -> None:
    page = open_cost(opened, "?d_model=256&heads=4&kv_heads=1&window=128&batch=2")
    options: dict[str, dict[str, Any]] = {
        "written": {"materialised": True},
        "full": {},
        "window": {"mask": "causal & window(keys=128)"},
        "grouped": {"kv_heads": 1},
        "cached": {"kv_heads": 1, "cached": True},
    }
    for variant, more in options.items():
        found = cost(d_model=256, heads=4, batch=2, seq=LENGTHS, **more).estimates
        assert shown(page, variant, "operations") == [one.total.total for one in found]
        assert shown(page, variant, "bytes") == [one.peak + one.bytes["KV cache"] for one in found]
    assert shown(page, "recurrent", "operations") == [Recurrent(n, 256, 2).operations for n in LENGTHS]
    # The same by hand, for full attention: four projections, two products over the pairs, softmax.
    by_hand = [2 * (8 * n * 256**2 + 4 * n * n * 256 + 5 * 4 * n * n) for n in LENGTHS]
    assert shown(page, "full", "operations") == by_hand


def test_lines_are_where_the_logarithms_are(opened: Open) -> None:
    page = open_cost(opened)
    for metric, kind in (("operations", "operations"), ("memory", "bytes")):
        page.tab.locator(f"[data-metric={metric}]").click()
        expect(page.tab.locator(f"[data-metric={metric}]")).to_have_attribute("aria-pressed", "true")
        for variant in VARIANTS:
            drawn = page.tab.locator(f"[data-series={variant}] path").get_attribute("d") or ""
            points = np.array([[float(x) for x in pair.split()] for pair in re.findall(r"[ML]([\d. ]+)", drawn)])
            assert len(points) == len(LENGTHS)
            values = np.log(shown(page, variant, kind))
            slope, intercept = np.polyfit(values, points[:, 1], 1)
            assert slope < 0
            np.testing.assert_allclose(slope * values + intercept, points[:, 1], atol=0.1)
            np.testing.assert_allclose(np.diff(points[:, 0]), np.diff(points[:, 0])[0], atol=0.11)


def test_sliders_legend_and_length(opened: Open) -> None:
    page = open_cost(opened)
    before = shown(page, "full", "operations")
    page.tab.get_by_label("Width D").focus()
    page.tab.keyboard.press("ArrowRight")
    expect(page.tab.locator(".cost-all td[data-variant=full]").first).not_to_have_attribute(
        "data-value", str(before[0])
    )
    assert shown(page, "full", "operations") == [
        one.total.total for one in cost(d_model=1024, heads=8, seq=LENGTHS).estimates
    ]
    page.tab.get_by_role("button", name="Causal window").click()
    expect(page.tab.locator("[data-series=window]")).to_have_count(0)
    expect(page.tab.locator("[data-here=window]")).to_have_count(0)
    page.tab.get_by_label("Length S").focus()
    page.tab.keyboard.press("End")
    expect(page.tab.locator(".here h2")).to_have_text("At 32,768 tokens")
    value = page.tab.locator("[data-here=full]").get_attribute("data-value")
    assert value == str(shown(page, "full", "operations")[-1])


def test_heads_and_width_stay_in_step(opened: Open) -> None:
    page = open_cost(opened, "?d_model=64&heads=64&kv_heads=64")
    page.tab.get_by_label("Heads H").focus()
    page.tab.keyboard.press("ArrowRight")
    expect(page.tab.get_by_label("Width D")).to_have_attribute("aria-valuetext", "128")
    page.tab.get_by_label("Width D").focus()
    page.tab.keyboard.press("Home")
    expect(page.tab.get_by_label("Key/value heads")).to_have_attribute("aria-valuetext", "8")
    page.settle()
    assert page.tab.locator(".field.wrong").count() == 0


@pytest.mark.parametrize(
    ("given", "field"),
    [({"heads": 3}, "heads"), ({"kv_heads": 3}, "kv_heads"), ({"d_model": 0}, "d_model"), ({"dtype": "int8"}, "dtype")],
)
def test_what_does_not_fit_is_refused_at_its_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        predict(given)
    assert caught.value.field == field


def test_measured_beside_predict(opened: Open) -> None:
    """A small layer, so that it takes seconds; operations and bytes are counted exactly as predicted."""
    page = open_cost(opened, "?d_model=16&heads=2&kv_heads=1&window=16")
    page.tab.get_by_role("button", name="Measure on this machine").click()
    expect(page.tab.locator("[data-do=stop]")).to_be_visible()
    rows = page.tab.locator(".cost-measured tbody tr")
    expect(rows.nth(3)).to_be_visible(timeout=WORK_PATIENCE)  # points come one by one
    page.tab.get_by_role("button", name="Stop").click()
    expect(page.tab.get_by_role("button", name="Measure again")).to_be_visible()
    many = rows.count()
    assert many >= 4
    assert page.tab.locator(".chart .measured").count() == many
    for row in rows.all():
        assert row.locator(".off").first.inner_text() == "exact"
    page.tab.locator("[data-metric=time]").click()
    expect(page.tab.locator(".chart .measured")).to_have_count(many)
    assert page.tab.locator("html").get_attribute("data-busy") is None


def test_times_are_asked_for_first(opened: Open) -> None:
    page = open_cost(opened, "?metric=time")
    expect(page.tab.locator(".chart-place")).to_contain_text("Measure to see them")


def test_the_figures_of_the_document(opened: Open) -> None:
    page = open_cost(opened)
    found = {
        row.get_attribute("data-document"): [cell.inner_text() for cell in row.locator("td").all()]
        for row in page.tab.locator(".document tbody tr").all()
    }
    assert {n: cells[0] for n, cells in found.items()} == {"512": "5 MiB", "2048": "32 MiB", "8192": "320 MiB"}
    for n, cells in found.items():
        length = int(n or 0)
        assert cells[1].startswith(f"{4 * (4 * length * 512 + 8 * length**2) / 2**20:,.0f} MiB")


def test_transformer_against_rnn(opened: Open) -> None:
    page = open_cost(opened, "?seq=8192")
    rows = page.tab.locator(".against tbody tr").all()
    cells = {row.get_attribute("data-row"): [cell.inner_text() for cell in row.locator("td").all()] for row in rows}
    assert cells["steps"] == cells["path"] == ["1", "8,192"]
    assert cells["kept"] == ["32 MiB", "2 KiB"]
    assert Recurrent(8192).operations < cost(seq=8192).estimates[0].total.total


def test_a_link_restores_and_a_file_opens_without_a_network(opened: Open, tmp_path: Path) -> None:
    page = open_cost(opened, '?metric=memory&d_model=1024&heads=16&seq=512&hidden=["recurrent"]&dtype=bfloat16')
    expect(page.tab.locator(".here h2")).to_have_text("At 512 tokens")
    assert page.tab.locator("[data-series]").count() == len(VARIANTS) - 1
    numbers = shown(page, "written", "bytes")
    chart = page.kept("svg", tmp_path).read_text(encoding="utf-8")
    assert chart.count("<path") == len(VARIANTS) - 1
    page.from_disk(page.kept("page", tmp_path))
    page.tab.wait_for_selector(".chart")
    assert shown(page, "written", "bytes") == numbers
    expect(page.tab.locator(".here h2")).to_have_text("At 512 tokens")
