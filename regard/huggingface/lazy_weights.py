"""Attention weights that are computed when they are read: `output_attentions=True` with attn_implementation="regard".

    w = softmax(softcap(scale · q kᵀ) + bias, over visible keys)      times sigmoid(lse − sink) if there are sinks

A `LazyWeights` holds q and k, which are linear in length. Indexing batch items, heads and rows computes only those.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels.changed_scores.score_change import ScoreChange
from regard.attention.kernels.materialized_weights import scaled_scores, softmax_rows
from regard.attention.masks import Mask
from regard.huggingface.lazy_tensor import LazyTensor


@dataclass(frozen=True)
class WeightSource:
    """What determines the weights of one call of attention."""

    q: Float[Tensor, "b h l d"]
    k: Float[Tensor, "b g s d"]
    mask: Mask | Tensor | None  # over the keys of k
    bias: Float[Tensor, "..."] | None
    scale: float
    softcap: float | None
    sinks: Float[Tensor, "..."] | None  # (H,) or (B, H, L)
    size: int  # keys of the weights; those after the keys of k have weight 0
    version: int | None  # of k, to detect that a cache has overwritten it

    def rows(self, b: range, h: range, rows: range) -> Float[Tensor, "b h rows size"]:
        """Return the weights of some batch items, heads and queries."""
        if self.version is not None and self.k._version != self.version:
            raise RuntimeError(
                "the keys of these attention weights have been overwritten by a later step, as static caches do; "
                "read the weights before the next step, or pass output_attentions=True to every step"
            )
        items, heads, queries = (torch.tensor(part, device=self.q.device) for part in (b, h, rows))
        q = _take(_take(_take(self.q, b, 0), h, 1), rows, 2)
        group = self.q.shape[1] // self.k.shape[1]
        k = _take(self.k, b, 0)
        k = k if group == 1 and len(h) == k.shape[1] else k.index_select(1, heads // group)
        scores = ScoreChange(self.softcap).cap(scaled_scores(q, k, self.scale))
        if self.bias is not None:
            scores = scores + self._entries(self.bias, b, h, rows).to(scores.dtype)
        if isinstance(self.mask, Mask):
            keys = k.shape[2]
            position = queries[:, None] + (keys - self.q.shape[2])
            j = torch.arange(keys, device=q.device)
            visible = self.mask.visible(items[:, None, None, None], heads[:, None, None], position, j)
            scores = scores.masked_fill(~visible, float("-inf"))
        elif self.mask is not None:
            scores = scores.masked_fill(~self._entries(self.mask, b, h, rows), float("-inf"))
        w, lse = softmax_rows(scores)
        if self.sinks is not None:
            sinks = self.sinks[:, None] if self.sinks.dim() == 1 else self.sinks
            sinks = self._entries(sinks[..., None], b, h, rows)[..., 0]
            w = w * torch.sigmoid(lse - sinks.to(lse.dtype))[..., None]
        return F.pad(w.to(self.q.dtype), (0, self.size - w.shape[-1]))

    def _entries(self, table: Tensor, b: range, h: range, rows: range) -> Tensor:
        """Return some batch items, heads and queries of a table that broadcasts to (B, H, L, S)."""
        table = table[(None,) * (4 - table.dim())]
        for dim, part in enumerate((b, h, rows)):
            table = _take(table, part, dim) if table.shape[dim] > 1 else table
        return table


class LazyWeights(LazyTensor):
    """Attention weights (B, H, L, S) that are computed when they are read, and then kept.

    shape, dtype, device    those of the weights
    source                  the queries, keys and masks to compute them from

    `w[batch, head]` and other indices of batch items, heads and rows compute only those. Every other use computes all.

    >>> q = torch.zeros(1, 2, 3, 4)
    >>> source = WeightSource(q, q, None, None, 1.0, None, None, size=3, version=None)
    >>> weights = LazyWeights((1, 2, 3, 3), torch.float32, q.device, source=source)
    >>> weights[0, 1, 2]
    tensor([0.3333, 0.3333, 0.3333])
    >>> weights.is_computed, weights.mean(), weights.is_computed
    (False, tensor(0.3333), True)
    """

    source: WeightSource | None

    def __init__(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, *, source: WeightSource
    ) -> None:
        self.source = source

    def _compute(self) -> Tensor:
        source = self._known()
        batch, heads, queries, _ = (int(n) for n in self.shape)
        if torch.is_grad_enabled() and self._needs_grad():
            result = source.rows(range(batch), range(heads), range(queries))
        else:
            result = torch.empty(tuple(self.shape), dtype=self.dtype, device=self.device)
            for b in range(batch):
                for h in range(heads):
                    result[b, h] = source.rows(range(b, b + 1), range(h, h + 1), range(queries))[0, 0]
        self.source = None  # the queries and keys are no longer needed
        return result

    def _known(self) -> WeightSource:
        assert self.source is not None
        return self.source

    def _needs_grad(self) -> bool:
        source = self._known()
        return any(x is not None and x.requires_grad for x in (source.q, source.k, source.bias, source.sinks))

    def _detached(self) -> Tensor | None:
        source = self._known()
        parts = {name: getattr(source, name) for name in ("q", "k", "bias", "sinks")}
        detached: dict[str, Any] = {name: None if x is None else x.detach() for name, x in parts.items()}
        return LazyWeights(tuple(self.shape), self.dtype, self.device, source=replace(source, **detached))

    def _select(self, index: Any) -> Tensor | None:
        parts = list(index) if isinstance(index, tuple) else [index]
        if sum(part is Ellipsis for part in parts) == 1:
            at = parts.index(Ellipsis)
            parts[at : at + 1] = [slice(None)] * (5 - len(parts))
        if len(parts) > 4 or not all(type(part) in (int, slice) for part in parts):
            return None
        parts += [slice(None)] * (4 - len(parts))
        ranges = []
        for dim, (part, size) in enumerate(zip(parts, self.shape, strict=True)):
            if isinstance(part, int):
                if not -size <= part < size:
                    raise IndexError(f"index {part} is out of bounds for dimension {dim} with size {size}")
                ranges.append(range(part % size, part % size + 1))
            else:
                ranges.append(range(*part.indices(size)))
                if ranges[-1].step < 0:
                    raise ValueError("step must be greater than zero")
        if all(r == range(size) for r, size in zip(ranges[:3], self.shape, strict=False)):
            return None
        weights = self._known().rows(*ranges[:3])
        drop = tuple(0 if isinstance(part, int) else slice(None) for part in parts[:3])
        return weights[(*drop, parts[3])]


def _take(x: Tensor, part: range, dim: int) -> Tensor:
    if part == range(x.shape[dim]):
        return x
    if part.step == 1:
        return x.narrow(dim, part.start, len(part))
    return x.index_select(dim, torch.tensor(part, dtype=torch.long, device=x.device))
