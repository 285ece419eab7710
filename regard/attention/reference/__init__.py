"""Attention in NumPy: the specification that every other path is tested against."""

from regard.attention.reference.numpy_attention import (
    as_float,
    attention,
    for_each_head,
    linear,
    log_sum_exp,
    merge_heads,
    multi_head_attention,
    project,
    scale_of,
    scores,
    softmax,
    split_heads,
    split_projected,
)

__all__ = [
    "as_float",
    "attention",
    "for_each_head",
    "linear",
    "log_sum_exp",
    "merge_heads",
    "multi_head_attention",
    "project",
    "scale_of",
    "scores",
    "softmax",
    "split_heads",
    "split_projected",
]
