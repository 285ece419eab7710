"""Properties of softmax in attention, and a test whether other functions of the scores can replace it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chance_line, lines
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition, enumerate_in_words
from regard.claims.statistics.rows import difference, figure, figures, over_seeds, values, where
from regard.claims.tasks.retrieval import VALUES, Reader, Weigh, train_reader
from regard.claims.tasks.retrieval import softmax as by_softmax

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
        figure(text("figures.sharpening"), over_seeds(properties, "sharpening"), "%"),
        figure(text("figures.gradient"), max(row["slope_error"] for row in properties)),
        *figures(end, "accuracy", text("figures.accuracy"), "%", way=WAYS),
    )
    if not all(
        row["sum_error"] < 1e-9 and row["sharpening"] > 0 and row["slope_error"] < 1e-4 and row["slope"] > 0
        for row in properties
    ):
        return Conclusion("does not hold here", text("sentences.property_missing"), shown)
    others = [way for way in WAYS if way != "softmax"]
    equal = [way for way in others if not difference(end, "accuracy", {"way": "softmax"}, {"way": way}).above]
    if not equal:
        return Conclusion("holds", text("sentences.holds", steps=steps), shown)
    ways = enumerate_in_words([label(way) for way in equal])
    return Conclusion("holds when", text("sentences.replaceable", ways=ways), shown)


def draw(rows: list[Row]) -> Chart:
    plot = lines(
        where(rows, what="trained"), "step", "accuracy", "way", x_label=text("chart.x"), y_label=text("chart.y"),
        percent=True, reference_lines=(chance_line(1 / VALUES),),
    )  # fmt: skip
    return Chart(text("chart.title"), (plot,))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
