"""Is attention quadratic? Exponents of operations, memory and CPU time over length, for four ways to compute it."""

import math
from typing import Any

import torch
import torch.nn.functional as F

from regard.attention import attend, masks
from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import lines
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.confidence_intervals import power_law_exponent
from regard.claims.statistics.rows import by_seed, figure, over_seeds, values, where
from regard.claims.statistics.statements import Statement, conclude
from regard.claims.statistics.timing import best_times
from regard.costs import cost

D_K, HEADS, WINDOW = 32, 2, 256
PARTS = ("projections", "attention")
WAYS = ("materialised", "fused", "causal", "window")
QUADRATIC = 1.7  # exponents above this count as quadratic
DEFINITION = Definition("quadratic")
text = DEFINITION.text


def parts(settings: Settings) -> list[Settings]:
    lengths: list[Settings] = [{"what": "length", "tokens": tokens} for tokens in settings["lengths"]]
    return [*lengths, *({"what": "against projections", "tokens": tokens} for tokens in settings["crossing"])]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    if part["what"] == "length":
        return _measure_length(settings, part["tokens"])
    return _measure_projections(settings, part["tokens"])


def _measure_length(settings: Settings, tokens: int) -> list[Row]:
    """Measure CPU time and operations of attention alone, and the peak memory of the layer with torch's profiler."""
    q, k, v = torch.randn(3, 1, HEADS, tokens, D_K)
    calls: dict[str, Any] = {
        "materialised": lambda: attend(q, k, v, weights=True),
        "fused": lambda: attend(q, k, v),
        "causal": lambda: attend(q, k, v, masks.causal()),
        "window": lambda: attend(q, k, v, masks.window(keys=WINDOW)),
    }
    if tokens > settings["matrix_up_to"]:
        del calls["materialised"]
    with torch.no_grad():
        times = best_times(calls, settings["repeats"])
    rows: list[Row] = []
    for way, seconds in times.items():
        layer = cost(
            d_model=D_K * HEADS, heads=HEADS, seq=tokens, causal=way == "causal", materialised=way == "materialised",
            mask=masks.window(keys=WINDOW) if way == "window" else None,
        )  # fmt: skip
        computed = layer.estimates[0].computed
        operations = sum(computed[name].forward for name in ("scores", "softmax", "weighted sum"))
        peak = layer.measure(repeats=1).measurements[0].peak
        rows.append({"way": way, "seconds": seconds, "peak": peak, "operations": operations})
    return rows


def _measure_projections(settings: Settings, tokens: int) -> list[Row]:
    """Time the four projections of a layer and its fused attention with 8 heads."""
    width = settings["width"]
    x, w = torch.randn(1, tokens, width), torch.randn(4 * width, width) * width**-0.5
    q, k, v = torch.randn(3, 1, 8, tokens, width // 8)
    calls: dict[str, Any] = {"projections": lambda: F.linear(x, w), "attention": lambda: attend(q, k, v)}
    with torch.no_grad():
        times = best_times(calls, settings["repeats"])
    return [{"part": name, "seconds": seconds, "width": width} for name, seconds in times.items()]


def exponents(rows: list[Row], way: str, column: str) -> list[float]:
    """Return, for each seed, the exponent a of a column that grows as lengthᵃ at longer lengths."""
    own = where(rows, what="length", way=way)
    lengths = sorted(values(own, "tokens"))
    longer = lengths[len(lengths) // 2 - (len(lengths) < 4) :]
    numbers = [by_seed(own, column, tokens=tokens) for tokens in longer]
    seeds = set(numbers[0]).intersection(*numbers) if numbers else ()
    return [power_law_exponent(longer, [each[seed] for each in numbers]) for seed in sorted(seeds)]


def crossing(rows: list[Row]) -> float | None:
    """Return the length from which attention takes longer than the projections, interpolated on log scales."""
    own = where(rows, what="against projections")
    lengths = sorted(values(own, "tokens"))
    seconds = {part: [over_seeds(own, "seconds", part=part, tokens=n).mean for n in lengths] for part in PARTS}
    log_ratio = [math.log(a / b) for a, b in zip(seconds["attention"], seconds["projections"], strict=True)]
    for n in range(len(lengths) - 1):
        if log_ratio[n] < 0 <= log_ratio[n + 1]:
            share = log_ratio[n] / (log_ratio[n] - log_ratio[n + 1])
            return float(lengths[n] * (lengths[n + 1] / lengths[n]) ** share)
    return None


def judge(rows: list[Row]) -> Conclusion:
    tokens = crossing(rows)
    width = values(where(rows, what="against projections"), "width")[0]
    statements = [
        Statement(text(f"statements.{column}", way=label(way)), exponents(rows, way, column), QUADRATIC)
        for column in ("operations", "peak", "seconds") for way in WAYS
    ]  # fmt: skip
    shown = (
        figure(text("figures.crossing", width=width, predicted=2 * width), float("nan") if tokens is None else tokens),
    )
    return conclude(statements, shown, holds=text("sentences.holds"), fails=text("sentences.never"))


def draw(rows: list[Row]) -> Chart:
    lengths, against = where(rows, what="length"), where(rows, what="against projections")
    axes: dict[str, Any] = {"x_label": text("chart.x"), "log": "xy"}
    return Chart(text("chart.title"), (
        lines(lengths, "tokens", "operations", "way", title=text("chart.operations"), **axes),
        lines(lengths, "tokens", "seconds", "way", title=text("chart.time"), **axes),
        lines(lengths, "tokens", "peak", "way", title=text("chart.memory"), **axes),
        lines(against, "tokens", "seconds", "part", title=text("chart.parts", width=against[0]["width"]), **axes),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
