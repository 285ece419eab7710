"""`nn.Linear` on inputs of any rank: the output and the gradient are those of a loop over all leading indices."""

from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import figure, values, where
from regard.claims.statistics.statements import Fact, conclude

ROUNDING = 16 * torch.finfo(torch.float32).eps  # relative to the largest number
DEFINITION = Definition("linear-as-loop")
text = DEFINITION.text


def loop(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return W·x + b for each vector along the last dimension, one after the other.

    >>> x, w, b = torch.randn(2, 3, 4, 5), torch.randn(6, 5), torch.randn(6)
    >>> torch.allclose(loop(x, w, b), F.linear(x, w, b), atol=1e-5)
    True
    """
    vectors = [weight @ x[index] + bias for index in product(*map(range, x.shape[:-1]))]
    return torch.stack(vectors).reshape(*x.shape[:-1], len(bias))


def parts(settings: Settings) -> list[Settings]:
    return [{"rank": rank} for rank in settings["ranks"]]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    shape, width = (2, 3, 4, 5)[5 - part["rank"] :], settings["width"]
    whole = [torch.randint(-8, 9, size).float() for size in ((*shape, width), (width, width), (width,))]
    x, weight, bias = torch.randn(*shape, width), torch.randn(width, width) * width**-0.5, torch.randn(width)
    outputs, gradients = [], []
    for way in (F.linear, loop):
        parameters = [weight.clone().requires_grad_(), bias.clone().requires_grad_()]
        output = way(x, *parameters)
        output.square().sum().backward()
        outputs.append(output.detach())
        gradients.append(torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]))
    return [{
        "same_on_whole_numbers": torch.equal(F.linear(*whole), loop(*whole)),
        "error": float((outputs[0] - outputs[1]).abs().max() / outputs[0].abs().max()),
        "gradient_error": float((gradients[0] - gradients[1]).abs().max() / gradients[0].abs().max()),
    }]  # fmt: skip


def judge(rows: list[Row]) -> Conclusion:
    statements = []
    for rank in sorted(values(rows, "rank")):
        own = where(rows, rank=rank)
        same = [row["same_on_whole_numbers"] and row["error"] < ROUNDING for row in own]
        statements += [
            Fact(text("statements.output", rank=rank), same),
            Fact(text("statements.gradient", rank=rank), [row["gradient_error"] < ROUNDING for row in own]),
        ]
    shown = [figure(text(f"figures.{name}"), max(row[name] for row in rows)) for name in ("error", "gradient_error")]
    return conclude(statements, shown, holds=text("sentences.holds"), fails=text("sentences.different"))


def draw(rows: list[Row]) -> Chart:
    return Chart(text("chart.title"), (bars(rows, "rank", "error", x_label=text("chart.x"), y_label=text("chart.y")),))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
