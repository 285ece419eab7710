"""What rows call things, for readers of Chinese; what is missing here is called the same."""

import re
from typing import Any

from regard.languages import Bilingual, bilingual

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
    "no attention, equal parameters": "无注意力，等参数",
    "none": "无位置",
    "none, causal": "无位置，因果",
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


def chinese_label(name: Any) -> str:
    """The Chinese for what rows call so.

    >>> chinese_label("mask on"), chinese_label("6 heads"), chinese_label(64)
    ('有掩码', '6 头', '64')
    """
    if found := re.fullmatch(r"(\d+) heads?", str(name)):
        return f"{found[1]} 头"
    if found := re.fullmatch(r"attention every (\d+)", str(name)):
        return f"每 {found[1]} 块一次注意力"
    return IN_CHINESE.get(str(name), str(name))


def label(name: Any) -> Bilingual:
    """What rows call so, in both languages."""
    return bilingual(str(name), chinese_label(name))
