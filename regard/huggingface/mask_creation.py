"""The mask function that transformers calls once per forward pass and kind of layer.

transformers passes lengths, offsets, a mask function and the 2-D padding mask. The result is a `LazyMask`: a boolean
tensor (B, 1, L, S) for the model, a mask of `regard.masks` for regard's attention. An L×S tensor is created only for
mask functions that are not recognised, under torch.compile, and if a model computes with the mask.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import masks
from regard.attention.kernels.private_torch_operators import in_jit_trace
from regard.attention.masks import Mask
from regard.huggingface.lazy_tensor import LazyTensor
from regard.huggingface.mask_functions import UnknownMaskError, find_mask, is_causal


class LazyMask(LazyTensor):
    """Boolean mask (B, 1, L, S), True = visible, described by a mask of `regard.masks`.

    rule    mask over the keys 0 … keys − 1, with which the queries are aligned at the end; None if all are visible
    keys    the later keys are hidden from all queries: they are free places of a static cache
    """

    rule: Mask | None
    keys: int

    def __init__(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, *, rule: Mask | None, keys: int
    ) -> None:
        self.rule, self.keys = rule, keys

    def _compute(self) -> Tensor:
        batch, _, queries, size = self.shape
        if self.rule is None:
            visible = torch.ones(queries, self.keys, dtype=torch.bool, device=self.device)
        else:
            visible = self.rule.tensor(queries, self.keys, device=self.device)
        return F.pad(visible.expand(batch, 1, queries, self.keys), (0, size - self.keys))

    def _select(self, index: Any) -> Tensor | None:
        """Return a mask without some of its last keys, as models cut it to the number of keys."""
        size = self.shape[3]
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > 4 or not all(isinstance(part, slice) for part in parts):
            return None
        ranges = [range(*part.indices(n)) for part, n in zip(parts, self.shape, strict=False)]
        if any(r != range(n) for r, n in zip(ranges[:3], self.shape, strict=False)):
            return None
        kept = ranges[3] if len(ranges) == 4 else range(size)
        if kept == range(size):
            return self
        if kept != range(len(kept)) or len(kept) < self.keys:
            return None
        shape = (*self.shape[:3], len(kept))
        return LazyMask(shape, self.dtype, self.device, rule=self.rule, keys=self.keys)


def create_mask(
    batch_size: int,
    q_length: int | None = None,
    kv_length: int = 0,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    cache_position: Tensor | None = None,
    device: Any = None,
    **options: Any,
) -> Tensor:
    """Return the mask (B, 1, L, S) for regard's attention; the arguments are those of transformers' `sdpa_mask`."""
    from transformers import masking_utils

    function = masking_utils.causal_mask_function if mask_function is None else mask_function
    if cache_position is not None:  # versions of transformers before 5 pass the positions of the queries
        device = cache_position.device if device is None else device
    device = torch.device("cpu") if device is None else torch.device(device)

    def dense() -> Tensor:
        arguments: dict[str, Any] = {"kv_length": kv_length, "kv_offset": kv_offset, "mask_function": function}
        if cache_position is None:
            arguments |= {"q_length": q_length, "q_offset": q_offset, "device": device}
        else:
            arguments["cache_position"] = cache_position
        options.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
        visible: Any = masking_utils.sdpa_mask(batch_size, attention_mask=attention_mask, **arguments, **options)
        assert isinstance(visible, Tensor)  # both ways to skip the mask are off
        return visible

    if torch.compiler.is_compiling() or in_jit_trace():
        return dense()
    if cache_position is not None:
        q_length, q_offset = len(cache_position), cache_position[0]
    queries, first = int(q_length or 0), int(q_offset)
    end = first + queries - kv_offset  # the key after that of the last query
    try:
        rule = find_mask(function, kv_offset, kv_offset + kv_length)
        keys = min(end, kv_length) if is_causal(rule) else kv_length
        if keys != kv_length:
            rule = find_mask(function, kv_offset, kv_offset + keys)
    except UnknownMaskError:
        return dense()
    if keys < 1 or (rule is not None and not rule.by_key and end != keys):
        return dense()
    rule = _simplify(rule, queries, keys)
    real = None if attention_mask is None else _real_keys(attention_mask, kv_offset, keys)
    if real is not None:
        rule = masks.padding(real) if rule is None else rule & masks.padding(real)
    return LazyMask((batch_size, 1, queries, kv_length), torch.bool, device, rule=rule, keys=keys)


def _simplify(rule: Mask | None, queries: int, keys: int) -> Mask | None:
    """Return None for a mask that shows every pair because there is one query, at the last key."""
    if queries != 1 or rule is None:
        return rule
    return None if rule.relative and all(rule.shows(0, 0, keys - 1, k) for k in (0, keys - 1)) else rule


def _real_keys(attention_mask: Tensor, start: int, keys: int) -> Tensor | None:
    """Return which of the keys are no padding, (B, keys); None if all are real."""
    real = attention_mask[:, start : start + keys].bool()
    if real.shape[1] < keys:
        real = F.pad(real, (0, keys - real.shape[1]))
    return None if bool(real.all()) else real.clone()  # the caller may change its mask before weights are read
