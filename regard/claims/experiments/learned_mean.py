"""Attention compared with weighted means whose weights are fixed: do learned, input-dependent weights matter?"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chance_line
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import differences, figures, per_seed
from regard.claims.statistics.statements import Reference, Statement, conclude
from regard.claims.tasks.fit import parameter_count
from regard.claims.tasks.retrieval import ITEMS, VALUES, Reader, majority, retrieval, softmax, train_reader

TASKS = {"find one": retrieval, "most frequent": majority}
GAIN = 0.05  # smallest difference of accuracy that counts
LEARNT = {("find one", "attention"): 0.95, ("most frequent", "plain mean"): 0.8}  # accuracies of the reference arms
DEFINITION = Definition("learned-mean")
text = DEFINITION.text


class FixedWeights(nn.Module):
    """The same weights for every input: softmax of one score per position, random or learned."""

    def __init__(self, learned: bool) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.randn(ITEMS), requires_grad=learned)

    def forward(self, scores: Tensor) -> Tensor:
        return torch.softmax(self.scores, -1).expand_as(scores)


def uniform(scores: Tensor) -> Tensor:
    """Return equal weights for all keys, whatever the scores."""
    return torch.full_like(scores, 1 / ITEMS)


WAYS: dict[str, Callable[[], Any]] = {
    "attention": lambda: softmax,
    "plain mean": lambda: uniform,
    "random weights": lambda: FixedWeights(learned=False),
    "learned by place": lambda: FixedWeights(learned=True),
}


def parts(settings: Settings) -> list[Settings]:
    return [{"task": task, "way": way} for task in TASKS for way in WAYS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    model = Reader(settings["width"], WAYS[part["way"]]())
    end = train_reader(model, settings, TASKS[part["task"]])[-1]
    return [{"accuracy": end.score, "parameters": parameter_count(model)}]


def judge(rows: list[Row]) -> Conclusion:
    shown = figures(rows, "accuracy", text("figures.accuracy"), "%", task=TASKS, way=WAYS)
    statements = [
        Statement(
            text("statements.better", task=label(task), way=label(way)),
            differences(rows, "accuracy", {"task": task, "way": "attention"}, {"task": task, "way": way}),
            GAIN, "difference",
        )
        for task in TASKS for way in WAYS if way != "attention"
    ]  # fmt: skip
    references = [
        Reference(text("references.learnt", task=label(task), way=label(way)),
                  per_seed(rows, "accuracy", task=task, way=way), least)
        for (task, way), least in LEARNT.items()
    ]  # fmt: skip
    holds, fails = text("sentences.holds"), text("sentences.never")
    return conclude(statements, shown, references=references, holds=holds, fails=fails)


def draw(rows: list[Row]) -> Chart:
    plot = bars(
        rows, "task", "accuracy", "way", y_label=text("chart.y"), percent=True,
        reference_lines=(chance_line(1 / VALUES),),
    )  # fmt: skip
    return Chart(text("chart.title"), (plot,))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
