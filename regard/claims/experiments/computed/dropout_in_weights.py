"""Dropout on attention weights: connections that are removed, sums of the rows, and the expectation of the output."""

import torch

from regard.attention import attend
from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import lines
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import figures, per_seed, values
from regard.claims.statistics.statements import Fact, Statement, conclude
from regard.nn import MultiHeadAttention

WIDTH, HEADS, TOKENS = 32, 4, 32
NEAR = 0.05  # smallest deviation that counts: of a row's sum from 1, of the output from its expectation
DEFINITION = Definition("dropout-in-weights")
text = DEFINITION.text


def parts(settings: Settings) -> list[Settings]:
    return [{"rate": rate} for rate in settings["rates"]]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    layer, x = MultiHeadAttention(WIDTH, HEADS, dropout=part["rate"]).eval(), torch.randn(1, TOKENS, WIDTH)
    q, k, v = torch.randn(3, HEADS, TOKENS, WIDTH // HEADS)
    basis = torch.eye(TOKENS).expand(HEADS, -1, -1)  # the outputs for these values are the weights themselves
    with torch.no_grad():
        evaluations = [layer(x, weights=True) for _ in range(2)]
        weights = attend(q, k, basis)
        dropped = torch.stack([attend(q, k, basis, dropout=part["rate"]) for _ in range(settings["passes"])])
    repeated = torch.equal(evaluations[0][0], evaluations[1][0])
    plain, mean_output = weights @ v, dropped.mean(0) @ v
    return [{
        "removed": float((dropped == 0).float().mean()),
        "row_deviation": float((dropped.sum(-1) - 1).abs().mean()),
        "bias": float((mean_output - plain).norm() / plain.norm()),
        "evaluation_unchanged": repeated and torch.allclose(evaluations[0][1].sum(-1), torch.ones(()), atol=1e-5),
    }]  # fmt: skip


def judge(rows: list[Row]) -> Conclusion:
    rates = sorted(values(rows, "rate"))
    statements: list[Statement | Fact] = []
    for rate in rates:
        name = f"{rate:g}"
        apart = [abs(removed - rate) for removed in per_seed(rows, "removed", rate=rate)]
        statements += [
            Statement(text("statements.sum", rate=name), per_seed(rows, "row_deviation", rate=rate), NEAR, below=True),
            Statement(text("statements.output", rate=name), per_seed(rows, "bias", rate=rate), NEAR, below=True),
            Statement(text("statements.removed", rate=name), apart, 0.01, below=True),
        ]
    statements.append(Fact(text("statements.evaluation"), [row["evaluation_unchanged"] for row in rows]))
    shown = figures(rows, "removed", text("figures.removed"), "%", rate=rates)
    return conclude(statements, shown, holds=text("sentences.holds"), fails=text("sentences.never"))


def draw(rows: list[Row]) -> Chart:
    curves = [
        {"rate": row["rate"], "seed": row["seed"], "deviation": row[name], "what": what}
        for row in rows
        for name, what in (("row_deviation", "sum of a row"), ("bias", "mean output"))
    ]
    plot = lines(curves, "rate", "deviation", "what", x_label=text("chart.x"), y_label=text("chart.y"))
    return Chart(text("chart.title"), (plot,))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
