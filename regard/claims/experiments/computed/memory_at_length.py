"""Memory of attention at 512, 2,048 and 8,192 tokens, part by part: as a document predicts it, and as allocated."""

import torch
import torch.nn.functional as F

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import lines
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import figure, over_seeds, values, where
from regard.claims.statistics.statements import Statement, conclude
from regard.claims.tasks.document_costs import document_bytes

QKV, MATRIX, INTERMEDIATES, ALL = "q, k, v", "attention matrix", "intermediates", "all parts"
TOLERANCE = 1.1  # the prediction counts as right if the measured bytes are at most 1.1 times as many
DEFINITION = Definition("memory-at-length")
text = DEFINITION.text


def predicted_bytes(seq: int, d_model: int) -> dict[str, int]:
    """Return the bytes of each part by the document's formula, in float32.

    >>> sum(predicted_bytes(512, 512).values()) == document_bytes(512)
    True
    """
    return {QKV: 12 * seq * d_model, MATRIX: 4 * seq**2, INTERMEDIATES: 4 * seq * d_model}


def parts(settings: Settings) -> list[Settings]:
    return [{"tokens": tokens} for tokens in settings["lengths"]]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    tokens, width, heads = part["tokens"], settings["width"], settings["heads"]
    with torch.no_grad():
        x, w = torch.randn(1, tokens, width), torch.randn(3 * width, width) * width**-0.5
        qkv = F.linear(x, w)
        q, k, v = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)  # each (1, H, S, d_k)
        scores = q @ k.transpose(-1, -2)
        scores *= (width // heads) ** -0.5
        torch.exp(scores - scores.amax(-1, keepdim=True), out=scores)
        scores /= scores.sum(-1, keepdim=True)
        context = scores @ v
    allocated = {QKV: qkv, MATRIX: scores, INTERMEDIATES: context}
    measured = {name: tensor.untyped_storage().nbytes() for name, tensor in allocated.items()}
    predicted = predicted_bytes(tokens, width)
    measured[ALL], predicted[ALL] = sum(measured.values()), document_bytes(tokens, width)
    return [
        {"part": name, "predicted": predicted[name], "measured": measured[name],
         "ratio": measured[name] / predicted[name]}
        for name in measured
    ]  # fmt: skip


def judge(rows: list[Row]) -> Conclusion:
    lengths = sorted(values(rows, "tokens"), reverse=True)
    statements = [
        Statement(
            text("statements.right", tokens=f"{tokens:,}", part=label(part)),
            [row["ratio"] for row in where(rows, tokens=tokens, part=part)], TOLERANCE, "ratio", below=True,
        )
        for tokens in lengths for part in (ALL, QKV, MATRIX, INTERMEDIATES)
    ]  # fmt: skip
    shown = [
        figure(text(f"figures.{name}", tokens=f"{tokens:,}", part=label(part)),
               over_seeds(rows, name, tokens=tokens, part=part).mean / 2**20, "MiB")
        for tokens in lengths[::-1] for part in (QKV, MATRIX, INTERMEDIATES, ALL) for name in ("predicted", "measured")
    ]  # fmt: skip
    return conclude(statements, shown, holds=text("sentences.holds"), fails=text("sentences.never"))


def draw(rows: list[Row]) -> Chart:
    mebibytes = [
        {"tokens": row["tokens"], "seed": row["seed"], "part": row["part"], "predicted": row["predicted"] / 2**20,
         "measured": row["measured"] / 2**20}
        for row in rows
    ]  # fmt: skip
    return Chart(text("chart.title"), tuple(
        lines(mebibytes, "tokens", name, "part", log="xy", x_label=text("chart.x"), title=text(f"chart.{name}"))
        for name in ("predicted", "measured")
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
