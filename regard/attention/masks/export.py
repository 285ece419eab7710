"""A mask in other forms: NumPy array, tensor, the formats of torch's functions, a sentence, a drawing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Index = Any  # an int, a NumPy array or a tensor of ints: masks only compare and combine them

MAX_DRAWN = 32  # queries and keys that `draw` shows


class ExportableMask(ABC):
    """Base of `Mask`: the methods that need only `visible`, such as conversion to a tensor."""

    @abstractmethod
    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        """Return whether each pair is visible; index arrays broadcast against each other."""

    @abstractmethod
    def why(self, b: int, h: int, q: int, k: int) -> str:
        """Return which part of the mask shows or hides a pair, and the reason, in words."""

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:  # noqa: B027 (most masks fit any size)
        """Raise ValueError if the mask cannot be applied to these sizes."""

    batch_size: int = 1
    """Number of batch items that the mask distinguishes; 1 if it is the same for all."""

    head_count: int = 1
    """Number of heads that the mask distinguishes; 1 if it is the same for all."""

    @property
    def extent(self) -> tuple[int, int] | None:
        """The (queries, keys) that the mask's own data covers; None if it fits any size."""
        return None

    def shows(self, b: int, h: int, q: int, k: int) -> bool:
        """Return whether one pair is visible."""
        return bool(self.visible(np.array(b), np.array(h), np.array(q), np.array(k)))

    def numpy(
        self, queries: int, keys: int, *, batch: int | None = None, heads: int | None = None
    ) -> NDArray[np.bool_]:
        """Return a boolean array (L, S), or (B or 1, H or 1, L, S) if the mask depends on batch item or head.

        >>> from regard import masks
        >>> masks.causal().numpy(2, 3)
        array([[ True,  True, False],
               [ True,  True,  True]])
        """
        self.check(self.batch_size if batch is None else batch, heads or self.head_count, queries, keys)
        visible = np.asarray(self.visible(*self._grid(queries, keys, np.arange)), bool)
        pairs = np.broadcast_to(visible, (self.batch_size, self.head_count, queries, keys)).copy()
        return pairs if batch is not None or heads or self.batch_size != 1 or self.head_count != 1 else pairs[0, 0]

    def tensor(
        self,
        queries: int,
        keys: int,
        *,
        batch: int | None = None,
        heads: int | None = None,
        device: torch.device | str | None = None,
    ) -> torch.Tensor:
        """Return a boolean tensor of the same shape as the array of `numpy`."""
        import torch

        self.check(self.batch_size if batch is None else batch, heads or self.head_count, queries, keys)
        pairs: torch.Tensor = self.visible(*self._grid(queries, keys, partial(torch.arange, device=device)))
        pairs = pairs.expand(self.batch_size, self.head_count, queries, keys)
        return pairs if batch is not None or heads or self.batch_size != 1 or self.head_count != 1 else pairs[0, 0]

    def _grid(self, queries: int, keys: int, arange: Callable[..., Any]) -> tuple[Any, Any, Any, Any]:
        return (
            arange(self.batch_size)[:, None, None, None],
            arange(self.head_count)[None, :, None, None],
            arange(keys - queries, keys)[None, None, :, None],
            arange(keys)[None, None, None, :],
        )

    def to_sdpa(self, queries: int, keys: int, **options: Any) -> torch.Tensor:
        """Return the `attn_mask` of `F.scaled_dot_product_attention`: boolean, **True = attend**, as in regard.

        >>> from regard import masks
        >>> masks.causal().to_sdpa(2, 2)
        tensor([[ True, False],
                [ True,  True]])
        """
        return self.tensor(queries, keys, **options)

    def to_mha(self, queries: int, keys: int, *, batch: int | None = None, heads: int | None = None) -> torch.Tensor:
        """Return the `attn_mask` of `nn.MultiheadAttention`: boolean, **True = ignore**, the opposite of regard.

        The shape is (L, S) if the mask is the same for all batch items and heads. Otherwise it is (B·H, L, S), and
        `heads` is required.

        >>> from regard import masks
        >>> masks.causal().to_mha(2, 2)
        tensor([[False,  True],
                [False, False]])
        """
        hidden = ~self.tensor(queries, keys)
        if hidden.dim() == 2:
            return hidden
        batch, heads = self.batch_size if batch is None else batch, heads or 0
        if not heads:
            raise ValueError(
                f"{self!r} differs between batch items or heads, so nn.MultiheadAttention expects it as "
                "(batch·heads, L, S): call to_mha(L, S, heads=num_heads)"
            )
        self.check(batch, heads, queries, keys)
        return hidden.expand(batch, heads, queries, keys).reshape(batch * heads, queries, keys)

    def to_flex(self, queries: int, keys: int) -> Callable[[Any, Any, Any, Any], Any]:
        """Return a `mask_mod(b, h, q_idx, kv_idx)` for `torch.nn.attention.flex_attention`, True = attend.

        FlexAttention counts queries from 0. regard aligns them with the last keys, so both L and S must be given.

        >>> from regard import masks
        >>> mod = masks.causal().to_flex(1, 3)        # one query, three keys: it sees all of them
        >>> mod(0, 0, 0, 2)
        True
        """
        self.check(self.batch_size, self.head_count, queries, keys)
        shift = keys - queries
        # FlexAttention inspects the signature and requires exactly these four arguments.
        return lambda b, h, q_idx, kv_idx: self.visible(b, h, q_idx + shift, kv_idx)

    def explain(
        self,
        query: int,
        key: int,
        *,
        batch: int = 0,
        head: int = 0,
        queries: int | None = None,
        keys: int | None = None,
    ) -> str:
        """Return a sentence that says which rule shows or hides a pair. If L ≠ S, pass `queries` and `keys`."""
        shift = 0 if queries is None or keys is None else keys - queries
        if not (0 <= query < (queries or query + 1) and 0 <= key < (keys or key + 1)):
            raise ValueError(f"query {query} and key {key} must be indices inside {queries} queries and {keys} keys")
        self._check_item(batch, head)
        position = query + shift
        subject = f"query {query}" + (f" (at position {position})" if shift else "")
        verb = "sees" if self.shows(batch, head, position, key) else "cannot see"
        return f"{subject} {verb} key {key}: {self.why(batch, head, position, key)}"

    def draw(self, queries: int | None = None, keys: int | None = None, *, batch: int = 0, head: int = 0) -> str:
        """Return the mask as text, one row per query: ■ visible, · hidden. At most 32 rows and columns are drawn."""
        self._check_item(batch, head)
        default = self.extent or (8, 8)
        queries, keys = queries or default[0], keys or default[1]
        rows, columns = min(queries, MAX_DRAWN), min(keys, MAX_DRAWN)
        q, k = np.arange(keys - queries, keys)[:rows, None], np.arange(columns)[None, :]
        pairs = np.broadcast_to(np.asarray(self.visible(np.array(batch), np.array(head), q, k)), (rows, columns))
        more = " …" if columns < keys else ""
        lines = [" ".join("■" if pair else "·" for pair in row) + more for row in pairs]
        return "\n".join([*lines, "…"] if rows < queries else lines)

    def _check_item(self, batch: int, head: int) -> None:
        for name, index, count in (("batch", batch, self.batch_size), ("head", head, self.head_count)):
            if count != 1 and not 0 <= index < count:
                raise ValueError(f"{name} must be an index from 0, and {self!r} has {count}; got {name}={index}")

    def __str__(self) -> str:
        return f"{self!r}\n{self.draw()}" if self.batch_size and self.head_count else repr(self)
