"""“Attention is quadratic”: exponents of time and memory, fitted, for four ways to compute it."""

from typing import Any

import torch
import torch.nn.functional as F

from regard.attention import attend, masks
from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chart, lines
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import INTUITION
from regard.claims.statistics.intervals import Interval, interval, slope
from regard.claims.statistics.rows import by_seed, figure, values, where
from regard.claims.statistics.timing import best_times
from regard.costs import cost
from regard.languages import bilingual as words

D_K, HEADS, WINDOW = 32, 2, 256
WAYS = ("materialised", "fused", "causal", "window")


def parts(settings: Settings) -> list[Settings]:
    found: list[Settings] = [{"what": "length", "tokens": tokens} for tokens in settings["lengths"]]
    return [*found, *({"what": "against projections", "tokens": tokens} for tokens in settings["crossing"])]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    if part["what"] == "length":
        return _length(settings, part["tokens"])
    return _against_projections(settings, part["tokens"])


def _length(settings: Settings, tokens: int) -> list[Row]:
    """Time of attention alone; peak bytes of the layer, by torch's profiler."""
    q, k, v = torch.randn(3, 1, HEADS, tokens, D_K)
    calls: dict[str, Any] = {
        "materialised": lambda: attend(q, k, v, weights=True),
        "fused": lambda: attend(q, k, v),
        "causal": lambda: attend(q, k, v, masks.causal()),
        "window": lambda: attend(q, k, v, masks.window(keys=WINDOW)),
    }
    if tokens > settings["matrix_up_to"]:
        del calls["materialised"]
    with torch.no_grad():
        times = best_times(calls, settings["repeats"])
    rows: list[Row] = []
    for way, seconds in times.items():
        layer = cost(
            d_model=D_K * HEADS,
            heads=HEADS,
            seq=tokens,
            mask=masks.window(keys=WINDOW) if way == "window" else None,
            causal=way == "causal",
            materialised=way == "materialised",
        )
        measured = layer.measure(repeats=1).measurements[0]
        rows.append({"way": way, "seconds": seconds, "peak": measured.peak})
    return rows


def _against_projections(settings: Settings, tokens: int) -> list[Row]:
    """The four projections of a layer of width D against QKᵀ, softmax and weighted sum, 8 heads, fused."""
    width = settings["width"]
    x, w = torch.randn(1, tokens, width), torch.randn(4 * width, width) * width**-0.5
    q, k, v = torch.randn(3, 1, 8, tokens, width // 8)
    calls: dict[str, Any] = {"projections": lambda: F.linear(x, w), "attention": lambda: attend(q, k, v)}
    with torch.no_grad():
        times = best_times(calls, settings["repeats"])
    return [{"part": name, "seconds": seconds, "width": width} for name, seconds in times.items()]


def exponents(rows: list[Row], way: str, name: str) -> Interval:
    """The exponent at the longer half of the lengths, for each seed; then mean and interval."""
    own = where(rows, what="length", way=way)
    lengths = sorted(values(own, "tokens"))
    upper = lengths[len(lengths) // 2 - (len(lengths) < 4) :]
    seen = [by_seed(own, name, tokens=tokens) for tokens in upper]
    return interval([slope(upper, [one[seed] for one in seen]) for seed in seen[0]])


def crossing(rows: list[Row]) -> float | None:
    """The length at which attention overtakes the projections, along straight lines between logarithms."""
    own = where(rows, what="against projections")
    lengths = sorted(values(own, "tokens"))
    ratio = [
        torch.tensor([_mean(own, part, tokens) for part in ("attention", "projections")]).log() for tokens in lengths
    ]
    above: list[float] = [float(pair[0] - pair[1]) for pair in ratio]
    for n in range(len(lengths) - 1):
        if above[n] < 0 <= above[n + 1]:
            share = above[n] / (above[n] - above[n + 1])
            return float(lengths[n] * (lengths[n + 1] / lengths[n]) ** share)
    return None


def _mean(rows: list[Row], part: str, tokens: int) -> float:
    return interval(list(by_seed(rows, "seconds", part=part, tokens=tokens).values())).mean


def judge(rows: list[Row]) -> Conclusion:
    time = {way: exponents(rows, way, "seconds") for way in WAYS}
    peak = {way: exponents(rows, way, "peak") for way in WAYS}
    where_ = crossing(rows)
    width = values(where(rows, what="against projections"), "width")[0]
    figures = (
        *(figure(words(f"exponent of time, {way}", f"时间指数,{zh(way)}"), time[way]) for way in WAYS),
        *(figure(words(f"exponent of memory, {way}", f"内存指数,{zh(way)}"), peak[way]) for way in WAYS),
        figure(
            words(
                f"tokens at which attention overtakes the projections, D = {width} (operations say {2 * width})",
                f"注意力超过投影的长度,D = {width}(按运算量为 {2 * width})",
            ),
            where_ if where_ is not None else float("nan"),
        ),
    )
    quadratic_time = [way for way in WAYS if 1.7 <= time[way].mean <= 2.3]
    quadratic_peak = [way for way in WAYS if 1.7 <= peak[way].mean <= 2.3]
    linear_peak = [way for way in WAYS if 0.7 <= peak[way].mean <= 1.3]
    if len(quadratic_time) == len(quadratic_peak) == len(WAYS):
        sentence = words("Time and memory are quadratic in every way.", "各种方式的时间与内存都是平方级。")
        return Conclusion("holds", sentence, figures)
    if quadratic_time or quadratic_peak:
        sentence = words(
            f"Time is quadratic for {_and(quadratic_time)}; memory is quadratic for {_and(quadratic_peak)} and linear "
            f"for {_and(linear_peak)}.",
            f"时间为平方级的:{_and_zh(quadratic_time)};内存为平方级的:{_and_zh(quadratic_peak)};内存为线性的"
            f":{_and_zh(linear_peak)}。",
        )
        return Conclusion("holds when", sentence, figures)
    sentence = words("Neither time nor memory is quadratic in any way.", "时间与内存都不是平方级。")
    return Conclusion("does not hold here", sentence, figures)


def _and(ways: list[str]) -> str:
    return ", ".join(ways) or "none"


def _and_zh(ways: list[str]) -> str:
    return "、".join(map(zh, ways)) or "无"


def draw(rows: list[Row]) -> Chart:
    lengths, against = where(rows, what="length"), where(rows, what="against projections")
    tokens: dict[str, Any] = {"x_label": words("tokens", "token 数"), "log": "xy"}
    width = against[0]["width"]
    return chart(
        words("How attention grows with length", "注意力如何随长度增长"),
        lines(lengths, "tokens", "seconds", "way", title=words("seconds of attention", "注意力用时(秒)"), **tokens),
        lines(lengths, "tokens", "peak", "way", title=words("peak bytes of the layer", "该层的峰值字节"), **tokens),
        lines(
            against,
            "tokens",
            "seconds",
            "part",
            title=words(f"seconds, D = {width}", f"用时(秒),D = {width}"),
            **tokens,
        ),
    )


CLAIM = Claim(
    name="quadratic",
    title=words("Attention is quadratic", "注意力是平方复杂度"),
    statement=words(
        "Attention costs time and memory that grow with the square of the length; QKᵀ is what is expensive.",
        "注意力的时间与内存随长度平方增长;QKᵀ 是主要开销。",
    ),
    source=(INTUITION,),
    experiment=words(
        f"Attention with {HEADS} heads of {D_K}: with the matrix written out, fused, fused and causal, and with a "
        f"window of {WINDOW} keys; seconds in turn, best of several; peak bytes by torch's profiler. Exponents are "
        "fitted over the longer half of the lengths. Beside it, the four projections of a wider layer against its "
        "attention.",
        f"{HEADS} 头、每头 {D_K} 维的注意力：写出矩阵、融合、因果融合、{WINDOW} 键窗口；轮流计时，内存由 profiler 测得;"
        "指数在较长一半的长度上拟合。另比较四个投影与注意力的时间。",
    ),
    rule=words(
        "An exponent of 1.7 … 2.3 counts as quadratic, 0.7 … 1.3 as linear. *holds* if time and memory are quadratic "
        "in all four ways, *holds when* if in some, with their names, *does not hold here* if in none.",
        "指数 1.7–2.3 为平方级,0.7–1.3 为线性。四种方式的时间与内存都为平方级则成立，部分则有条件成立，皆非则不成立。",
    ),
    sizes={
        "tiny": {"seeds": 1, "lengths": (32, 64), "matrix_up_to": 64, "crossing": (16, 64), "width": 32, "repeats": 1},
        "default": {
            "seeds": 3,
            "lengths": (256, 512, 1024, 2048, 4096, 8192),
            "matrix_up_to": 4096,
            "crossing": (256, 512, 1024, 2048, 4096),
            "width": 512,
            "repeats": 4,
        },
        "full": {
            "seeds": 5,
            "lengths": (256, 512, 1024, 2048, 4096, 8192, 16384),
            "matrix_up_to": 8192,
            "crossing": (256, 512, 1024, 2048, 4096, 8192),
            "width": 512,
            "repeats": 8,
        },
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
    timed=True,
)
