"""From rows to plots: means over seeds with their intervals, along numbers or at names."""

from collections.abc import Iterable, Sequence
from typing import Any

from regard.claims.chart import Chart, Level, Plot, Point, Series, Table
from regard.claims.claim import Row, words
from regard.claims.intervals import interval
from regard.claims.selecting import by_seed, values, where
from regard.learn import Words

CHANCE = words("chance", "随机猜测")

# What rows call things, for readers of Chinese; what is missing here is called the same.
IN_CHINESE = {
    "alibi": "ALiBi",
    "as the document has it": "照文档",
    "attention": "注意力",
    "before": "训练前",
    "board": "棋盘",
    "causal": "融合+因果",
    "column": "竖列",
    "convolution": "卷积",
    "divided by √d_k": "除以 √d_k",
    "equal parameters": "等参数",
    "falling": "下斜线",
    "find one": "找出一个",
    "fused": "融合",
    "in training's way": "按训练方式",
    "learned": "可学习",
    "learned by place": "按位置学习",
    "linear": "线性归一化",
    "loop over tokens": "逐 token 循环",
    "mask off": "无掩码",
    "mask on": "有掩码",
    "materialised": "写出矩阵",
    "maximum subtracted": "减去最大值",
    "most frequent": "找最多的",
    "neither": "都没有",
    "no attention": "无注意力",
    "no attention, equal parameters": "无注意力,等参数",
    "none": "无位置",
    "none, causal": "无位置,因果",
    "norm only": "仅层归一化",
    "not divided": "不缩放",
    "one call": "一次调用",
    "parity": "奇偶",
    "plain mean": "平均",
    "pictures": "图片",
    "post-norm": "后归一化",
    "pre-norm": "前归一化",
    "projections": "投影",
    "random weights": "随机权重",
    "recall": "回忆",
    "reshape": "重塑",
    "residual only": "仅残差",
    "rising": "上斜线",
    "rotary": "旋转",
    "row": "横行",
    "same blocks": "同样的块",
    "sinusoidal": "正弦",
    "sort": "排序",
    "time series": "时间序列",
    "token before": "前一个 token",
    "trained": "训练后",
    "untrained": "未训练",
    "when it writes": "自行生成",
    "window": "窗口",
}


def called(name: Any) -> Words:
    """What rows call so, in both languages.

    >>> called("mask on")["zh"], called(64)["zh"]
    ('有掩码', '64')
    """
    return words(str(name), IN_CHINESE.get(str(name), str(name)))


def point(x: float | str, found: Iterable[float]) -> Point:
    """Mean and interval over seeds, at a place."""
    seen = interval(list(found))
    sure = seen.high < float("inf")
    return Point(x, seen.mean, seen.low if sure else None, seen.high if sure else None)


def lines(rows: Sequence[Row], x: str, y: str, by: str, **more: Any) -> Plot:
    """A line for each value of `by`: the mean of `y` over seeds along `x`. `more` is that of a `Plot`.

    >>> rows = [{"seed": seed, "heads": 2, "way": "a", "share": 0.5 + seed} for seed in range(2)]
    >>> lines(rows, "heads", "share", "way").series[0].points[0].mean
    1.0
    """
    series = []
    for key in values(rows, by):
        own = [row for row in where(rows, **{by: key}) if row.get(x) is not None and row.get(y) is not None]
        if own:
            points = (point(at, by_seed(own, y, **{x: at}).values()) for at in sorted(values(own, x)))
            series.append(Series(called(key), tuple(points)))
    return Plot("lines", tuple(series), **more)


def bars(rows: Sequence[Row], x: str, y: str, by: str | None = None, **more: Any) -> Plot:
    """Bars of `y` at each value of `x`, side by side for each value of `by`."""
    along = values(rows, x)
    series = []
    for key in values(rows, by) if by else [None]:
        own = where(rows, **{by: key}) if by else list(rows)
        found = {at: by_seed(own, y, **{x: at}) for at in along}
        points = tuple(point(str(at), seeds.values()) for at, seeds in found.items() if seeds)
        series.append(Series(called(y if key is None else key), points))
    places = {str(at): called(at) for at in along}
    return Plot("bars", tuple(series), **{"places": places, **more})


def level(height: float, name: Words = CHANCE, x: str | None = None) -> Level:
    """A thin line across, that of chance unless another is named."""
    return Level(height, name, x)


def chart(title: Words, *panels: Plot | Table) -> Chart:
    """Plots side by side."""
    return Chart(title, panels)
