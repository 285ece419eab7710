"""Why scores are divided by √d_k: their variance, and the saturation and gradient of softmax without the division."""

import torch

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chance_line, lines
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.confidence_intervals import power_law_exponent
from regard.claims.statistics.rows import by_seed, differences, figures, per_seed, ratios, values, where
from regard.claims.statistics.statements import Reference, Statement, conclude
from regard.claims.tasks.retrieval import VALUES, Reader, softmax, train_reader

KEYS = 64  # number of keys of each softmax over random scores
SCALED, UNSCALED = WAYS = ("divided by √d_k", "not divided")
GAIN = 0.02  # smallest gain of accuracy that counts
DEFINITION = Definition("scale")
text = DEFINITION.text


def parts(settings: Settings) -> list[Settings]:
    random: list[Settings] = [{"what": "random", "d_k": d_k} for d_k in settings["random"]]
    return random + [{"what": "trained", "d_k": d_k, "way": way} for d_k in settings["trained"] for way in WAYS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    if part["what"] == "random":
        return _measure_random(settings, part["d_k"])
    model = Reader(part["d_k"], softmax, scale=None if part["way"] == SCALED else 1.0)
    end = train_reader(model, settings)[-1]
    return [{"accuracy": end.score, "loss": end.loss}]


def _measure_random(settings: Settings, d_k: int) -> list[Row]:
    """Measure scores of independent standard normal q and k, as the argument for dividing by √d_k assumes."""
    q, k = torch.randn(settings["rows"], 1, d_k), torch.randn(settings["rows"], KEYS, d_k)
    products = (q * k).sum(-1).double()  # float64: for nearly one-hot weights the gradient is a small difference
    rows: list[Row] = []
    for way in WAYS:
        scores = products / d_k**0.5 if way == SCALED else products
        w = softmax(scores)
        # The derivative of softmax is diag(w) − w wᵀ; this is its Frobenius norm, written out.
        gradient = (w.square().sum(-1) - 2 * w.pow(3).sum(-1) + w.square().sum(-1).square()).clamp_min(0).sqrt()
        entropy = -(w * w.clamp_min(1e-300).log()).sum(-1)
        rows.append({
            "way": way, "variance": float(scores.var()), "entropy": float(entropy.mean()),
            "gradient": float(gradient.median()),
        })  # fmt: skip
    return rows


def judge(rows: list[Row]) -> Conclusion:
    random, trained = where(rows, what="random"), where(rows, what="trained")
    widths, trained_widths = sorted(values(random, "d_k")), sorted(values(trained, "d_k"))
    largest = widths[-1]
    variance = [by_seed(random, "variance", way=UNSCALED, d_k=d_k) for d_k in widths]
    exponent = [power_law_exponent(widths, [each[seed] for each in variance]) for seed in variance[0]]
    scaled = {"way": SCALED, "d_k": largest}
    saturation = ratios(random, "gradient", {"way": UNSCALED, "d_k": largest}, scaled)
    kept = ratios(random, "gradient", scaled, {"way": SCALED, "d_k": widths[0]})
    gain = {
        d_k: differences(trained, "accuracy", {"way": SCALED, "d_k": d_k}, {"way": UNSCALED, "d_k": d_k})
        for d_k in trained_widths
    }
    statements = [
        *(Statement(text("statements.gain", d_k=d_k), gain[d_k], GAIN, "difference") for d_k in trained_widths[::-1]),
        Statement(text("statements.at_least"), exponent, 0.95, required=True),
        Statement(text("statements.at_most"), exponent, 1.05, below=True, required=True),
        Statement(text("statements.saturates", d_k=largest), saturation, 0.1, "ratio", below=True, required=True),
        Statement(text("statements.kept", d_k=largest), kept, 0.5, "ratio", required=True),
    ]
    references = [
        Reference(text("references.scaled", d_k=d_k), per_seed(trained, "accuracy", way=SCALED, d_k=d_k), 0.9)
        for d_k in trained_widths
    ]
    shown = (
        *figures(random, "entropy", text("figures.entropy"), d_k=[largest], way=WAYS),
        *figures(random, "gradient", text("figures.gradient"), scale="ratio", d_k=[largest], way=WAYS),
        *figures(trained, "accuracy", text("figures.accuracy"), "%", d_k=trained_widths, way=WAYS),
    )
    return conclude(
        statements, shown, references=references, holds=text("sentences.holds"), fails=text("sentences.random_differs")
    )


def draw(rows: list[Row]) -> Chart:
    random, trained = where(rows, what="random"), where(rows, what="trained")
    d_k = text("chart.x")
    return Chart(text("chart.title"), (
        lines(random, "d_k", "variance", "way", log="xy", x_label=d_k, title=text("chart.variance")),
        lines(random, "d_k", "gradient", "way", log="xy", x_label=d_k, title=text("chart.gradient")),
        lines(trained, "d_k", "accuracy", "way", log="x", x_label=d_k, title=text("chart.accuracy"), percent=True,
              reference_lines=(chance_line(1 / VALUES),)),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
