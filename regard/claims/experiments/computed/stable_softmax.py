"""Softmax without subtracting the maximum: where exp overflows, and the share of NaN in a document's NumPy example."""

from typing import Any

import numpy as np

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import lines
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import figure, figures, over_seeds, values, where
from regard.claims.statistics.statements import Fact, conclude

Array = np.ndarray
DTYPES: dict[str, Any] = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
EXAMPLE_WIDTH = 512  # d_model of the document's example
DEFINITION = Definition("stable-softmax")
text = DEFINITION.text


def naive_softmax(scores: Array) -> Array:
    """Return softmax as the document writes it, without subtracting the maximum."""
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(-1, keepdims=True)


def stable_softmax(scores: Array) -> Array:
    """Return softmax after subtracting the largest score of each row."""
    return naive_softmax(scores - scores.max(-1, keepdims=True))


SOFTMAX = {"naive": naive_softmax, "stable": stable_softmax}


def document_example(d_model: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return scores (H, S, S), values (H, S, d_k) and W_o of the document's multi-head example.

    It has 10 tokens, 8 heads and weights drawn from a standard normal distribution without scaling.
    """
    x, (w_q, w_k, w_v, w_o) = rng.standard_normal((10, d_model)), rng.standard_normal((4, d_model, d_model))
    q, k, v = (np.moveaxis((x @ w).reshape(10, 8, -1), 1, 0) for w in (w_q, w_k, w_v))
    return q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), v, w_o


def example_output(weights: Array, v: Array, w_o: Array) -> Array:
    """Return the output (S, d_model) of the example for these attention weights."""
    return np.moveaxis(weights @ v, 0, 1).reshape(10, -1) @ w_o


def parts(settings: Settings) -> list[Settings]:
    widths: list[Settings] = [{"what": "example", "d_model": d_model} for d_model in settings["widths"]]
    return [{"what": "overflow"}, *widths]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    with np.errstate(over="ignore", invalid="ignore"):
        return _measure_overflow() if part["what"] == "overflow" else _measure_example(part["d_model"], seed)


def _measure_overflow() -> list[Row]:
    """Find the largest score with a finite exp by bisection, for each dtype."""
    rows: list[Row] = []
    for name, dtype in DTYPES.items():
        low, high = dtype(0), dtype(1000)
        while low < (middle := dtype((low + high) / dtype(2))) < high:
            low, high = (middle, high) if np.isfinite(np.exp(middle)) else (low, middle)
        beyond = np.array([high, 0], dtype)
        nan = {f"{kind}_nan": np.isnan(function(beyond)).mean() for kind, function in SOFTMAX.items()}
        rows.append({"dtype": name, "largest": float(low), **nan})
    return rows


def _measure_example(d_model: int, seed: int) -> list[Row]:
    scores, v, w_o = document_example(d_model, np.random.default_rng(seed))
    weights = {kind: function(scores) for kind, function in SOFTMAX.items()}
    nan = {f"{kind}_nan": np.isnan(example_output(own, v, w_o)).mean() for kind, own in weights.items()}
    finite = np.isfinite(weights["naive"]).all(-1)  # whole rows: beside a NaN there are zeros that are wrong as well
    apart = np.abs(weights["naive"] - weights["stable"])[finite]
    return [{**nan, "apart": apart.max() if finite.any() else 0.0, "largest_score": scores.max()}]


def judge(rows: list[Row]) -> Conclusion:
    limits, examples = where(rows, what="overflow"), where(rows, what="example")
    widths = sorted(values(examples, "d_model"))
    largest = widths[-1]
    naive, stable = (over_seeds(examples, f"{kind}_nan", "share", d_model=largest) for kind in SOFTMAX)
    shown = (
        *figures(limits, "largest", text("figures.limit"), dtype=DTYPES),
        figure(text("figures.naive", d_model=largest), naive, "%"),
        figure(text("figures.stable", d_model=largest), stable, "%"),
        figure(text("figures.difference"), max(row["apart"] for row in examples)),
    )
    never_nan = [all(row["stable_nan"] == 0 for row in where(rows, seed=seed)) for seed in values(rows, "seed")]
    statements = (
        Fact(text("statements.prevents"), never_nan, required=True),
        Fact(text("statements.same"), [row["apart"] < 1e-12 for row in examples], required=True),
        Fact(text("statements.overflows"), [row["naive_nan"] > 0 for row in limits], required=True),
        Fact(text("statements.example", d_model=largest),
             [row["naive_nan"] > 0 for row in where(examples, d_model=largest)]),
    )  # fmt: skip
    broken = [d_model for d_model in widths if any(row["naive_nan"] for row in where(examples, d_model=d_model))]
    numbers = {"first": broken[0] if broken else largest, "largest": largest, "share": 100 * naive.mean}
    holds, fails = text("sentences.holds", **numbers), text("sentences.unstable")
    return conclude(statements, shown, holds=holds, fails=fails)


def draw(rows: list[Row]) -> Chart:
    shares = [
        {"d_model": row["d_model"], "seed": row["seed"], "share": row[name], "softmax": kind}
        for name, kind in (("naive_nan", "as written"), ("stable_nan", "maximum subtracted"))
        for row in where(rows, what="example")
    ]
    plot = lines(
        shares, "d_model", "share", "softmax", log="x", percent=True, x_label=text("chart.x"), y_label=text("chart.y")
    )
    return Chart(text("chart.title"), (plot,))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
