"""Predicted numbers: formulas, sums, table, JSON, plot, and the errors of `regard.cost`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard import masks
from regard.claims.tasks.document_costs import DOCUMENT_MEGABYTES, corrected, document_bytes
from regard.costs.operations import PARTS
from regard.costs.plot import cost_figure, find_crossing
from support.strategies import rules


def test_formulas() -> None:
    one = regard.cost(d_model=512, heads=8, seq=2048).estimates[0]
    s, d = 2048, 512
    assert {part: one.operations[part].forward for part in PARTS} == {
        "q projection": 2 * s * d * d,
        "k projection": 2 * s * d * d,
        "v projection": 2 * s * d * d,
        "out projection": 2 * s * d * d,
        "scores": 2 * s * s * d,
        "softmax": 5 * 8 * s * s,
        "weighted sum": 2 * s * s * d,
    }
    assert one.bytes["parameters"] == 4 * (4 * d * d + 4 * d)
    assert one.bytes["q, k, v"] == 3 * 4 * s * d
    assert one.bytes["attention matrix"] == 0
    assert one.peak == 5 * 4 * s * d


def test_backward_operations() -> None:
    one = regard.cost(d_model=64, heads=4, seq=100, backward=True).estimates[0]
    pairs = [one.operations[part] for part in ("scores", "weighted sum")]
    assert sum(work.backward for work in pairs) == 2.5 * sum(work.forward for work in pairs)
    assert one.operations["q projection"].backward == 2 * one.operations["q projection"].forward
    stored = regard.cost(d_model=64, heads=4, seq=100, backward=True, materialised=True).estimates[0]
    pairs = [stored.operations[part] for part in ("scores", "weighted sum")]
    assert sum(work.backward for work in pairs) == 2 * sum(work.forward for work in pairs)


def test_totals() -> None:
    one = regard.cost(d_model=64, heads=4, seq=300, causal=True, backward=True).estimates[0]
    assert one.total.forward == sum(work.forward for work in one.operations.values())
    assert one.total.total == sum(work.forward + work.backward for work in one.operations.values())
    assert one.matmul.total == sum(work.total for part, work in one.computed.items() if part != "softmax")
    assert one.pairs.visible < one.pairs.computed < one.pairs.all


def test_cache_projects_one_token() -> None:
    one = regard.cost(d_model=64, heads=4, kv_heads=2, seq=1000, cached=True).estimates[0]
    assert one.operations["k projection"].forward == 2 * 64 * 32
    assert one.operations["scores"].forward == 2 * 1000 * 64
    assert one.bytes["KV cache"] == 2 * 2 * 16 * 1000 * 4


@given(st.data())
def test_visible_pairs(data: st.DataObject) -> None:
    batch, heads, queries, keys = (data.draw(st.integers(1, n)) for n in (2, 2, 90, 90))
    mask = data.draw(rules(batch, heads, queries, keys))
    estimate = regard.cost(d_model=8, heads=heads, seq=keys, batch=batch, d_k=4, queries=queries, mask=mask).estimates[
        0
    ]
    visible = np.broadcast_to(mask.numpy(queries, keys, batch=batch, heads=heads), (batch, heads, queries, keys))
    assert estimate.pairs.visible == int(visible.sum())
    assert estimate.pairs.visible <= estimate.pairs.computed <= estimate.pairs.all
    assert estimate.bytes["mask"] >= 0


def test_costs_of_the_document() -> None:
    # The document has exactly 5, 32 and 320 MiB.
    assert {seq: document_bytes(seq) / 2**20 for seq in DOCUMENT_MEGABYTES} == DOCUMENT_MEGABYTES
    for seq in DOCUMENT_MEGABYTES:
        right = corrected(seq)
        assert right.materialised - right.document == 4 * 7 * seq**2  # the matrices of the other seven heads
        assert right.fused < right.document
        assert right.operations - right.document_operations == 8 * seq * 512**2 + 5 * 7 * seq**2
    assert corrected(512, batch=2).materialised == 2 * corrected(512).materialised


def test_table_fits_80_columns() -> None:
    text = str(regard.cost(seq=[512, 2048, 8192], causal=True, backward=True, batch=16))
    assert max(map(len, text.splitlines())) <= 80
    for part in (*PARTS, "total", "visible pairs", "computed pairs", "parameters", "peak of the call", "S = 8,192"):
        assert part in text
    assert "…" not in text
    plain = str(regard.cost(seq=2048))
    assert "13.1 G" in plain  # 13,052,674,048
    assert "20 MiB" in plain
    assert "KV cache" not in plain


def test_json() -> None:
    cost = regard.cost(d_model=64, heads=4, seq=[16, 32])
    numbers = json.loads(cost.to_json())
    assert [one["seq"] for one in numbers["estimates"]] == [16, 32]
    assert numbers["estimates"][1]["operations"]["scores"] == {"forward": 2 * 32 * 32 * 64, "backward": 0}
    assert numbers["estimates"][0]["peak_bytes"] == cost.estimates[0].peak


def test_plot(tmp_path: Path) -> None:
    cost = regard.cost(seq=[512, 2048, 8192])
    left, right = cost_figure(cost.estimates, cost.title).axes
    assert left.get_xlabel() == right.get_xlabel() == "sequence length S (tokens)"
    assert (left.get_ylabel(), right.get_ylabel()) == ("operations", "memory (bytes)")
    assert {left.get_xscale(), left.get_yscale(), right.get_xscale(), right.get_yscale()} == {"log"}
    lines = {line.get_label(): line for line in (*left.get_lines(), *right.get_lines())}
    np.testing.assert_array_equal(lines["total"].get_ydata(), [one.total.total for one in cost.estimates])
    np.testing.assert_array_equal(lines["total"].get_xdata(), [512, 2048, 8192])
    np.testing.assert_array_equal(lines["peak of the call"].get_ydata(), [one.peak for one in cost.estimates])
    looks = [(line.get_linestyle(), line.get_marker()) for name, line in lines.items() if not name.startswith("_")]
    assert len(set(looks[:4])) == len(set(looks[4:])) == 4  # distinguishable without colour
    assert [text.get_text() for text in left.texts] == ["scores overtake projections\nat S = 1,024"]
    for name in ("cost.png", "cost.svg", "cost.pdf"):
        cost.plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert "sequence length S (tokens)" in (tmp_path / "cost.svg").read_text()


def test_plot_of_one_length_and_of_a_module(tmp_path: Path) -> None:
    regard.cost(seq=64, cached=True).plot(tmp_path / "one.png")
    regard.cost(regard.nn.SelfAttention(8), torch.zeros(1, 4, 8)).plot(tmp_path / "module.png")
    assert find_crossing([1, 2], [1, 1], [2, 2]) is None


INVALID: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"heads": 7}, ValueError, "got 7 heads for 512 channels"),
    ({"kv_heads": 3}, ValueError, "got 3 for 8 query heads"),
    ({"heads": 0}, ValueError, "heads must be at least 1, got 0"),
    ({"d_model": -1}, ValueError, "d_model must be at least 1, got -1"),
    ({"seq": [512, 0]}, ValueError, "seq must be at least 1, got 0"),
    ({"seq": []}, ValueError, "seq must contain at least one length"),
    ({"seq": [1.5]}, TypeError, "seq must be a whole number, got 1.5"),
    ({"batch": 0}, ValueError, "batch must be at least 1"),
    ({"batch": True}, TypeError, "batch must be a whole number"),
    ({"queries": -3}, ValueError, "queries must be at least 1"),
    ({"d_k": 0}, ValueError, "d_k must be at least 1"),
    ({"mask": "sideways"}, ValueError, "sideways"),
    ({"mask": 3}, TypeError, "mask must be a mask of regard.masks"),
    ({"mask": masks.padding([1, 2, 3]), "batch": 2}, ValueError, "batch of 3"),
    ({"dtype": "int8"}, ValueError, "dtype must be one of float64"),
    ({"dtype": torch.int32}, ValueError, "dtype must be one of float64"),
    ({"cached": True, "backward": True}, ValueError, "no backward"),
    ({"cached": True, "queries": 9, "seq": 8}, ValueError, "got 9 queries and 8 keys"),
    ({"sequence": 8}, TypeError, "sequence"),
]


@pytest.mark.parametrize(("options", "error", "message"), INVALID, ids=lambda value: str(value)[:40])
def test_invalid_sizes(options: dict[str, Any], error: type[Exception], message: str, unchecked: None) -> None:
    with pytest.raises(error, match=message):
        regard.cost(**options)


def test_invalid_modules_and_options(tmp_path: Path, unchecked: None) -> None:
    with pytest.raises(TypeError, match="a module and its input, or sizes by name"):
        regard.cost(512, 8)
    with pytest.raises(ValueError, match="no attention layer was called inside Linear"):
        regard.cost(torch.nn.Linear(2, 2), torch.zeros(1, 2))
    with pytest.raises(TypeError, match="needs its input"):
        regard.cost(regard.nn.SelfAttention(8))
    with pytest.raises(ValueError, match="has sinks"):
        regard.cost(regard.nn.MultiHeadAttention(8, 2, sinks=True), torch.zeros(1, 4, 8), weights=True)
    with pytest.raises(ValueError, match="repeats"):
        regard.cost(seq=8).measure(repeats=0)
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf"):
        regard.cost(seq=8).plot(tmp_path / "cost.jpeg")
