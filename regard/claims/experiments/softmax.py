"""Properties of softmax in attention, and a test whether other functions of the scores can replace it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chance_line, lines
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import differences, figure, figures, over_seeds, per_seed, values, where
from regard.claims.statistics.statements import Fact, Reference, Statement, conclude
from regard.claims.tasks.retrieval import VALUES, Reader, Weigh, train_reader
from regard.claims.tasks.retrieval import softmax as by_softmax

GAIN = 0.05  # smallest difference of accuracy that counts
DEFINITION = Definition("softmax")
text = DEFINITION.text


def by_argmax(scores: Tensor) -> Tensor:
    """Put all weight on the largest score; no gradient reaches the scores."""
    return F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)


def by_sum(scores: Tensor) -> Tensor:
    """Normalise linearly: each score minus the smallest, divided by the sum of these differences."""
    above = scores - scores.min(-1, keepdim=True).values
    return above / above.sum(-1, keepdim=True).clamp_min(1e-9)


def by_sigmoid(scores: Tensor) -> Tensor:
    """Apply a sigmoid to each score; the weights do not sum to one."""
    return torch.sigmoid(scores)


WAYS: dict[str, Weigh] = {"softmax": by_softmax, "argmax": by_argmax, "linear": by_sum, "sigmoid": by_sigmoid}


def parts(settings: Settings) -> list[Settings]:
    trained: list[Settings] = [{"what": "trained", "way": way} for way in WAYS]
    return [{"what": "properties"}, *trained]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    if part["what"] == "properties":
        return _measure_properties()
    model = Reader(settings["width"], WAYS[part["way"]])
    evaluations = train_reader(model, settings, evaluations=settings["marks"])
    return [{"step": one.step, "accuracy": one.score} for one in evaluations]


def _measure_properties() -> list[Row]:
    """Measure sum, sharpening and derivative of softmax on random scores; finite differences check the derivative."""
    scores = torch.randn(32, 16, dtype=torch.float64)
    direction = torch.randn_like(scores)
    rows: list[Row] = []
    for name, weigh in WAYS.items():
        w = weigh(scores)
        change = torch.func.jvp(weigh, (scores,), (direction,))[1]
        finite = (weigh(scores + 1e-6 * direction) - weigh(scores - 1e-6 * direction)) / 2e-6
        size = max(float(change.norm()), float(finite.norm()), 1e-12)
        rows.append({
            "way": name,
            "sum_error": float((w.sum(-1) - 1).abs().max()),
            "sharpening": _share_of_largest(weigh(4 * scores)) - _share_of_largest(w),
            "slope": float(change.norm()),
            "slope_error": float((change - finite).norm() / size),
        })  # fmt: skip
    return rows


def _share_of_largest(w: Tensor) -> float:
    return float((w.max(-1).values / w.sum(-1)).mean())


def judge(rows: list[Row]) -> Conclusion:
    properties, trained = where(rows, what="properties", way="softmax"), where(rows, what="trained")
    steps = max(values(trained, "step"))
    end = where(trained, step=steps)
    shown = (
        figure(text("figures.sum"), max(row["sum_error"] for row in properties)),
        figure(text("figures.sharpening"), over_seeds(properties, "sharpening", "share"), "%"),
        figure(text("figures.gradient"), max(row["slope_error"] for row in properties)),
        *figures(end, "accuracy", text("figures.accuracy"), "%", way=WAYS),
    )
    differentiable = [row["slope_error"] < 1e-4 and row["slope"] > 0 for row in properties]
    softmax = {"way": "softmax"}
    statements: list[Statement | Fact] = [
        *(
            Statement(text("statements.better", way=label(way)), differences(end, "accuracy", softmax, {"way": way}),
                      GAIN, "difference")
            for way in WAYS if way != "softmax"
        ),
        Fact(text("statements.sum"), [row["sum_error"] < 1e-9 for row in properties], required=True),
        Fact(text("statements.sharpens"), [row["sharpening"] > 0 for row in properties], required=True),
        Fact(text("statements.gradient"), differentiable, required=True),
    ]  # fmt: skip
    reference = Reference(text("references.softmax"), per_seed(end, "accuracy", way="softmax"), 0.95)
    holds, fails = text("sentences.holds", steps=steps), text("sentences.property_missing")
    return conclude(statements, shown, references=[reference], holds=holds, fails=fails)


def draw(rows: list[Row]) -> Chart:
    plot = lines(
        where(rows, what="trained"), "step", "accuracy", "way", x_label=text("chart.x"), y_label=text("chart.y"),
        percent=True, reference_lines=(chance_line(1 / VALUES),),
    )  # fmt: skip
    return Chart(text("chart.title"), (plot,))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
