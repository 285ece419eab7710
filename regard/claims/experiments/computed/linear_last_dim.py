"""`nn.Linear` on (B, S, D) applies the same weights to every token, like a loop over tokens or a reshape."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import figure, figures, values, where
from regard.claims.statistics.statements import Fact, conclude
from regard.claims.statistics.timing import best_times

SHAPES = {"2×5×512": (2, 5, 512), "8×32×64": (8, 32, 64), "4×128×256": (4, 128, 256)}
ROUNDING = 16 * torch.finfo(torch.float32).eps  # relative to the largest output
DEFINITION = Definition("linear-last-dim")
text = DEFINITION.text


def _one_call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x, weight, bias)


def _reshape(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x.reshape(-1, x.shape[-1]), weight, bias).reshape(*x.shape[:-1], -1)


def _loop(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.stack([torch.stack([F.linear(token, weight, bias) for token in row]) for row in x])


WAYS = {"one call": _one_call, "reshape": _reshape, "loop over tokens": _loop}


def parts(settings: Settings) -> list[Settings]:
    return [{"shape": shape} for shape in settings["shapes"]]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    b, s, d = SHAPES[part["shape"]]
    x, weight, bias = torch.randn(b, s, d), torch.randn(d, d) * d**-0.5, torch.randn(d)
    # Integers this small are exact in float32, so a difference between their outputs is not rounding.
    integers = (torch.randint(-8, 9, (b, s, d)).float(), torch.randint(-8, 9, (d, d)).float(), bias.round())
    times = best_times({name: partial(way, x, weight, bias) for name, way in WAYS.items()}, settings["repeats"])
    first, exact = _one_call(x, weight, bias), _one_call(*integers)
    rows: list[Row] = []
    for name, way in WAYS.items():
        output = way(x, weight, bias)
        rows.append({
            "way": name,
            "same_bits": torch.equal(output, first),
            "same_on_whole_numbers": torch.equal(way(*integers), exact),
            "error": float((output - first).abs().max() / first.abs().max()),
            "ratio": times[name] / times["one call"],
            "seconds": times[name],
        })  # fmt: skip
    return rows


def judge(rows: list[Row]) -> Conclusion:
    others = ("reshape", "loop over tokens")
    same = {way: [row["same_bits"] for row in where(rows, way=way)] for way in others}
    shown = (
        *(figure(text(f"figures.{way.split()[0]}"), sum(same[way]) / len(same[way]), "%") for way in others),
        figure(text("figures.error"), max(row["error"] for row in rows)),
        *figures(rows, "ratio", text("figures.time"), "×", shape=values(rows, "shape"), way=others),
    )
    statements = (
        Fact(text("statements.exact"), [row["same_on_whole_numbers"] for row in rows], required=True),
        Fact(text("statements.rounding"), [row["error"] < ROUNDING for row in rows], required=True),
        Fact(text("statements.reshape"), same["reshape"]),
        Fact(text("statements.loop"), same["loop over tokens"]),
    )
    return conclude(statements, shown, holds=text("sentences.holds"), fails=text("sentences.different"))


def draw(rows: list[Row]) -> Chart:
    plot = bars(rows, "shape", "ratio", "way", log="y", x_label=text("chart.x"), y_label=text("chart.y"))
    return Chart(text("chart.title"), (plot,))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
