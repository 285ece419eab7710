"""Where exp overflows, and what becomes of the document's own NumPy example."""

from typing import Any

import numpy as np

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chart, lines
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import INTUITION
from regard.claims.statistics.rows import figure, over_seeds, values, where
from regard.languages import bilingual as words

Array = np.ndarray
KINDS: dict[str, Any] = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
DOCUMENT = 512  # d_model of the document's example


def naive(scores: Array) -> Array:
    """softmax as the document writes it."""
    grown = np.exp(scores)
    return grown / grown.sum(-1, keepdims=True)


def stable(scores: Array) -> Array:
    """The same after subtracting the largest score of each row."""
    return naive(scores - scores.max(-1, keepdims=True))


def parts(settings: Settings) -> list[Settings]:
    widths: list[Settings] = [{"what": "example", "d_model": d} for d in settings["widths"]]
    return [{"what": "overflow"}, *widths]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    with np.errstate(over="ignore", invalid="ignore"):
        return _overflows() if part["what"] == "overflow" else _example(part["d_model"], seed)


def _overflows() -> list[Row]:
    """The largest score whose exp is finite, found by halving an interval."""
    rows: list[Row] = []
    for name, kind in KINDS.items():
        low, high = kind(0), kind(1000)
        while low < (middle := kind((low + high) / kind(2))) < high:
            low, high = (middle, high) if np.isfinite(np.exp(middle)) else (low, middle)
        beyond = np.array([high, 0], kind)
        naive_nan, stable_nan = np.isnan(naive(beyond)).mean(), np.isnan(stable(beyond)).mean()
        rows.append({"dtype": name, "largest": float(low), "naive_nan": naive_nan, "stable_nan": stable_nan})
    return rows


def _example(d_model: int, seed: int) -> list[Row]:
    """Multi-head attention of the document: 10 tokens, 8 heads, weights straight from a normal distribution."""
    draw = np.random.default_rng(seed)
    x, heads = draw.standard_normal((10, d_model)), 8
    w_q, w_k, w_v, w_o = draw.standard_normal((4, d_model, d_model))
    q, k, v = (np.moveaxis((x @ w).reshape(10, heads, -1), 1, 0) for w in (w_q, w_k, w_v))  # (H, S, d_k)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    outputs = [np.moveaxis(softmax(scores) @ v, 0, 1).reshape(10, -1) @ w_o for softmax in (naive, stable)]
    finite = np.isfinite(naive(scores)).all(-1)  # whole rows: beside a NaN stand zeros that are wrong as well
    apart = np.abs(naive(scores) - stable(scores))[finite]
    return [
        {
            "naive_nan": np.isnan(outputs[0]).mean(),
            "stable_nan": np.isnan(outputs[1]).mean(),
            "apart": apart.max() if finite.any() else 0.0,
            "largest_score": scores.max(),
        }
    ]


def judge(rows: list[Row]) -> Conclusion:
    limits, examples = where(rows, what="overflow"), where(rows, what="example")
    largest = max(values(examples, "d_model"))
    nans = [over_seeds(examples, name, d_model=largest) for name in ("naive_nan", "stable_nan")]
    apart = max(row["apart"] for row in examples)
    figures = (
        *(
            figure(
                words(f"largest score with a finite exp, {kind}", f"exp 不溢出的最大分数,{kind}"),
                over_seeds(limits, "largest", dtype=kind),
            )
            for kind in KINDS
        ),
        figure(
            words(f"NaN in the document's example (d_model {largest}), as written", "文档示例按原文的 NaN 占比"),
            nans[0],
            "%",
        ),
        figure(words("NaN with the maximum subtracted", "减去最大值后的 NaN 占比"), nans[1], "%"),
        figure(words("largest difference of the weights where both are finite", "两者均有限时的最大差"), apart),
    )
    saved = all(row["naive_nan"] > 0 for row in limits) and all(row["stable_nan"] == 0 for row in rows)
    if not (saved and apart < 1e-12):
        sentence = words(
            "Subtracting the maximum does not keep softmax finite, or changes it.",
            "减去最大值未能避免溢出，或改变了结果。",
        )
        return Conclusion("does not hold here", sentence, figures)
    broken = [d for d in sorted(values(examples, "d_model")) if max(r["naive_nan"] for r in where(examples, d_model=d))]
    said = f"from d_model {broken[0]} on" if broken else "at no width that was tried"
    sentence = words(
        "With the maximum subtracted nothing overflows and nothing else changes; the document's own example, which "
        f"does not subtract it, gives NaN {said}, in {100 * nans[0].mean:.0f} % of the entries at d_model {largest}.",
        f"减去最大值后不再溢出，结果不变；文档示例未减最大值,d_model {largest} 时 {100 * nans[0].mean:.0f}% 的输出为 "
        "NaN。",
    )
    return Conclusion("holds", sentence, figures)


def draw(rows: list[Row]) -> Chart:
    shown = [
        {"d_model": row["d_model"], "seed": row["seed"], "share": row[name], "softmax": label}
        for name, label in (("naive_nan", "as the document has it"), ("stable_nan", "maximum subtracted"))
        for row in where(rows, what="example")
    ]
    nan = lines(
        shown, "d_model", "share", "softmax", log="x", percent=True,
        x_label=words("d_model of the document's example", "文档示例的 d_model"),
        y_label=words("share of NaN in the output", "输出中 NaN 的比例"),
    )  # fmt: skip
    return chart(words("NaN in the document's multi-head example", "文档多头示例中的 NaN"), nan)


CLAIM = Claim(
    name="stable-softmax",
    title=words("Softmax must subtract the maximum", "softmax 需减去最大值"),
    statement=words(
        "Numerical stability: softmax subtracts the maximum before exp, which changes nothing but keeps it from "
        "overflowing. (The document's own NumPy multi-head example does not.)",
        "数值稳定性:softmax 在 exp 前减去最大值，不改变结果而避免溢出。(文档自己的 NumPy 多头示例没有这样做。)",
    ),
    source=(INTUITION,),
    experiment=words(
        "The largest score with a finite exp in float16, 32 and 64; the document's NumPy example (normal weights "
        "without scaling, float64, 8 heads, 10 tokens) at d_model 8 … 512, as written and with the maximum subtracted.",
        "float16/32/64 下 exp 不溢出的最大分数；文档的 NumPy 多头示例在 d_model 8 … 512 下按原文与减最大值后对比。",
    ),
    rule=words(
        "*holds* if one score beyond the limit gives NaN in every dtype as written, no NaN occurs anywhere with the "
        "maximum subtracted, and the weights agree within 1e-12 where both are finite; else *does not hold here*.",
        "各精度下越限即得 NaN,减最大值后全无 NaN,且两者均有限时相差不超过 1e-12,则成立；否则不成立。",
    ),
    sizes={
        "tiny": {"seeds": 2, "widths": (8, 512)},
        "default": {"seeds": 10, "widths": (8, 16, 32, 64, 128, 256, 512)},
        "full": {"seeds": 100, "widths": (8, 16, 32, 64, 128, 256, 512, 1024)},
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
)
