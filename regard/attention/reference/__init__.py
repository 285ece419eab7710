"""Attention in NumPy: the specification that every other implementation is tested against.

`numpy_attention` implements the formula; `online_softmax` computes it in tiles, as FlashAttention does. `shape_checks`
validates shapes and `mask_array` converts masks, for NumPy and torch alike.
"""

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
    "as_float", "attention", "for_each_head", "linear", "log_sum_exp", "merge_heads", "multi_head_attention", "project",
    "scale_of", "scores", "softmax", "split_heads", "split_projected",
]  # fmt: skip
