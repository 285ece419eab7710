"""Temperature: entropy of softmax(scores / T), and the norm of its gradient with respect to the scores."""

from itertools import pairwise

import torch

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import lines
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import differences, figures, ratios, values
from regard.claims.statistics.statements import Statement, conclude

KEYS = 64
ENTROPY = 0.05  # smallest difference of entropy that counts, in nats
FLAT = 0.1  # a gradient below this share of that at temperature 1 counts as vanished
DEFINITION = Definition("temperature")
text = DEFINITION.text


def parts(settings: Settings) -> list[Settings]:
    return [{"temperature": temperature} for temperature in settings["temperatures"]]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    torch.manual_seed(seed)  # the same scores at every temperature
    scores = torch.randn(settings["rows"], KEYS, dtype=torch.float64)
    w = torch.softmax(scores / part["temperature"], -1)
    entropy = -(w * w.clamp_min(1e-300).log()).sum(-1)
    # d softmax(s / T) / ds = (diag(w) − w wᵀ) / T; this is its Frobenius norm, written out.
    squared = w.square().sum(-1) - 2 * w.pow(3).sum(-1) + w.square().sum(-1).square()
    gradient = squared.clamp_min(1e-30).sqrt() / part["temperature"]
    return [
        {"entropy": float(entropy.mean()), "gradient": float(gradient.median()), "largest": float(w.amax(-1).mean())}
    ]


def judge(rows: list[Row]) -> Conclusion:
    ordered = sorted(values(rows, "temperature"))
    lowest, highest = ordered[0], ordered[-1]
    statements = [
        Statement(
            text("statements.entropy", low=_fraction(low), high=_fraction(high)),
            differences(rows, "entropy", {"temperature": high}, {"temperature": low}), ENTROPY,
        )
        for low, high in pairwise(ordered)
    ] + [
        Statement(
            text("statements.flat", temperature=_fraction(end)),
            ratios(rows, "gradient", {"temperature": end}, {"temperature": 1}), FLAT, "ratio", below=True,
        )
        for end in (lowest, highest)
    ]  # fmt: skip
    shown = (
        *figures(rows, "entropy", text("figures.entropy"), temperature=ordered),
        *figures(rows, "gradient", text("figures.gradient"), scale="ratio", temperature=ordered),
        *figures(rows, "largest", text("figures.largest"), "%", temperature=ordered),
    )
    return conclude(statements, shown, holds=text("sentences.holds"), fails=text("sentences.never"))


def _fraction(number: float) -> str:
    return f"{number:g}" if number >= 1 else f"1/{1 / number:g}"


def draw(rows: list[Row]) -> Chart:
    rows = [{**row, "what": "softmax"} for row in rows]
    x = text("chart.x")
    return Chart(text("chart.title"), (
        lines(rows, "temperature", "entropy", "what", log="x", x_label=x, title=text("chart.entropy")),
        lines(rows, "temperature", "gradient", "what", log="xy", x_label=x, title=text("chart.gradient")),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
