"""`nn.Linear` on (B, S, D): the same weights on every token, as a loop over tokens or a reshape would apply them."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chart
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import LINEAR
from regard.claims.statistics.rows import figure, over_seeds, values
from regard.claims.statistics.timing import best_times
from regard.languages import bilingual as words

SHAPES = {"2×5×512": (2, 5, 512), "8×32×64": (8, 32, 64), "4×128×256": (4, 128, 256)}
ROUNDING = 16 * torch.finfo(torch.float32).eps  # relative to the largest output


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
    # Whole numbers this small are exact in float32: what differs then is not rounding.
    whole = (torch.randint(-8, 9, (b, s, d)).float(), torch.randint(-8, 9, (d, d)).float(), bias.round())
    times = best_times({name: partial(way, x, weight, bias) for name, way in WAYS.items()}, settings["repeats"])
    first, exact = _one_call(x, weight, bias), _one_call(*whole)
    rows: list[Row] = []
    for name, way in WAYS.items():
        found = way(x, weight, bias)
        rows.append(
            {
                "way": name,
                "same_bits": torch.equal(found, first),
                "same_on_whole_numbers": torch.equal(way(*whole), exact),
                "error": float((found - first).abs().max() / first.abs().max()),
                "ratio": times[name] / times["one call"],
                "seconds": times[name],
            }
        )
    return rows


def judge(rows: list[Row]) -> Conclusion:
    reshape = [row for row in rows if row["way"] == "reshape"]
    loop = [row for row in rows if row["way"] == "loop over tokens"]
    error = max(row["error"] for row in rows)
    figures = [
        figure(words("same bits, reshape", "重塑：逐位相同"), sum(r["same_bits"] for r in reshape) / len(reshape), "%"),
        figure(words("same bits, loop", "循环：逐位相同"), sum(r["same_bits"] for r in loop) / len(loop), "%"),
        figure(words("largest difference, relative", "最大相对差"), error),
        *(
            figure(
                words(f"time of {way} / one call, {shape}", f"{zh(way)}与单次调用的时间比,{shape}"),
                over_seeds(rows, "ratio", way=way, shape=shape),
                "×",
            )
            for shape in values(rows, "shape")
            for way in ("reshape", "loop over tokens")
        ),
    ]
    if all(row["same_bits"] for row in rows):
        return Conclusion("holds", words("The three give the same bits.", "三种写法逐位相同。"), tuple(figures))
    if all(row["same_on_whole_numbers"] for row in rows) and error < ROUNDING:
        sentence = words(
            "It is the same linear map, exactly so where nothing is rounded; with rounding the loop's sums run in "
            f"another order and differ by up to {error:.1e} of the largest output.",
            f"是同一个线性映射，无舍入时完全相等；有舍入时循环的求和次序不同，相差至多为最大输出的 {error:.1e}。",
        )
        return Conclusion("holds when", sentence, tuple(figures))
    sentence = words("The three ways differ by more than rounding.", "三种写法之差超过舍入误差。")
    return Conclusion("does not hold here", sentence, tuple(figures))


def draw(rows: list[Row]) -> Chart:
    times = bars(
        rows, "shape", "ratio", "way", log="y", x_label=words("B × S × D", "B × S × D"),
        y_label=words("time / time of one call", "时间 / 一次调用的时间"),
    )  # fmt: skip
    return chart(
        words("nn.Linear on the last dimension: time of three ways", "nn.Linear 作用于末维：三种写法的时间"), times
    )


CLAIM = Claim(
    name="linear-last-dim",
    title=words("nn.Linear acts on the last dimension", "nn.Linear 作用于最后一维"),
    statement=words(
        "nn.Linear on (B, S, D) applies the same weights to every token: it equals a loop over tokens, and a reshape "
        "to (B·S, D).",
        "nn.Linear 作用于 (B, S, D) 的最后一维：等价于对每个 token 循环，也等价于先重塑为 (B·S, D)。",
    ),
    source=(LINEAR,),
    experiment=words(
        "Random input, weight and bias in float32, and whole numbers that float32 holds exactly; the three ways "
        "compared bit by bit, and timed in turn, best of several.",
        "随机的 float32 输入与权重，以及 float32 可精确表示的整数；三种写法逐位比较并轮流计时。",
    ),
    rule=words(
        "*holds* if all outputs have the same bits; *holds when* rounding is allowed for, if they have on whole "
        "numbers and otherwise differ by less than 16 float32 epsilons of the largest output; else *does not hold "
        "here*.",
        "全部逐位相同则成立；整数输入逐位相同且其余差异小于最大输出的 16 个 float32 epsilon,则有条件成立；否则不成立。",
    ),
    sizes={
        "tiny": {"seeds": 2, "shapes": ("2×5×512",), "repeats": 2},
        "default": {"seeds": 5, "shapes": tuple(SHAPES), "repeats": 15},
        "full": {"seeds": 20, "shapes": tuple(SHAPES), "repeats": 50},
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
    timed=True,
)
