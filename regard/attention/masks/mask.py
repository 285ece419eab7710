"""`Mask`, the base class of all masks, and its algebra: `&`, `|` and `~`.

A mask is a rule that says which (batch, head, query, key) pairs are visible. Rules refer to *positions*. Key j is at
position j. The queries are aligned with the last keys: query i of L over S keys is at position i + S − L, which makes
causal masks aligned at the end. If L = S, the position of a query is its index.

Each mask implements three methods. `&`, `|` and `~` derive them from those of their parts:

    visible(b, h, q, k)             is this pair visible?           elementwise on index arrays
    states(b, q0, q1, k0, k1)       are all, some or no pairs of a block visible?
    boundaries(b, keys)             at which positions should a block end?

The state of a block is HIDDEN (0), MIXED (1) or VISIBLE (2), so the algebra is three-valued logic: `&` is the minimum,
`|` the maximum, `~` is 2 − state. MIXED is always allowed, also for a block whose pairs are all visible or all hidden:
the block is then computed with a mask, which costs time but changes no result.

This package uses NumPy only. torch is imported when a tensor is requested or passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.attention.masks.export import ExportableMask, Index
from regard.attention.masks.mask_data import as_tensor, is_tensor

States = NDArray[np.int8]
Positions = NDArray[np.int64]
MaskLike = Any  # Mask | boolean tensor | boolean array | nested lists of bools; `as_mask` rejects everything else

HIDDEN, MIXED, VISIBLE = 0, 1, 2


def block_states(hidden: Any, visible: Any) -> States:
    """Return the state of each block from two boolean arrays: all pairs hidden, all pairs visible."""
    return np.where(hidden, HIDDEN, np.where(visible, VISIBLE, MIXED)).astype(np.int8)


class Mask(ExportableMask):
    """A rule on (batch, head, query position, key position). **True means visible.**

    >>> from regard import masks
    >>> mask = masks.causal() & masks.window(keys=2)
    >>> mask
    causal() & window(keys=2)
    >>> print(mask.draw(4, 4))
    ■ · · ·
    ■ ■ · ·
    · ■ ■ ·
    · · ■ ■
    >>> mask.explain(3, 0)
    'query 3 cannot see key 0: window(keys=2) hides it (the window reaches from key 2 to key 3)'
    """

    relative: bool = False
    """Whether visibility depends on the distance q − k only."""

    by_key: bool = False
    """Whether visibility depends on batch item and key only, as for padding."""

    parseable: bool = True
    """Whether `parse(repr(mask))` gives the same mask: it has no data other than numbers."""

    label: str = ""
    """Name of the mask in `why`; its repr if empty."""

    from_booleans: ClassVar[Callable[[Any], Mask]]
    """Converts a boolean array or tensor to a mask; set by `custom`, whose classes derive from this one."""

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        """Return the state of each block n: queries at positions q0 … q1−1, keys at k0[n] … k1[n]−1."""
        return np.full(k0.shape, MIXED, np.int8)

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        """Return the positions at which blocks should end, so that they are all visible or all hidden."""
        return ()

    def restrict(self, b: int, q0: int, q1: int, k0: int, k1: int) -> Mask | bool:
        """Return a simpler mask that equals this one on one block; True or False if it is constant there."""
        state = int(self.states(b, q0, q1, np.array([k0]), np.array([k1]))[0])
        return self if state == MIXED else state == VISIBLE

    def to(self, device: Any) -> Mask:
        """Return the mask with its data (lengths, ids, tables) as tensors on a device, so that it is copied once."""
        data: dict[str, Any] = {x.name: getattr(self, x.name) for x in fields(self)} if is_dataclass(self) else {}
        moved = {name: _to_device(x, device) for name, x in data.items()}
        return replace(self, **moved) if any(moved[name] is not data[name] for name in data) else self  # type: ignore[type-var]

    def why(self, b: int, h: int, q: int, k: int) -> str:
        reason = self._reason(b, h, q, k)
        verb = "shows" if self.shows(b, h, q, k) else "hides"
        return f"{self.label or repr(self)} {verb} it" + (f" ({reason})" if reason else "")

    def _reason(self, b: int, h: int, q: int, k: int) -> str:
        """Return the reason that `why` adds in brackets: why the mask shows or hides this pair."""
        return ""

    def _batch_index(self, b: Index) -> Index:
        """Return the index into the mask's own data, which may have one entry for all batch items."""
        return b if self.batch_size != 1 else b * 0

    def _head_index(self, h: Index) -> Index:
        return h if self.head_count > 1 else h * 0

    def _check_batch(self, batch: int) -> None:
        if self.batch_size not in (1, batch):
            raise ValueError(f"{self!r} is for a batch of {self.batch_size}, but the batch has {batch}")

    __array_ufunc__ = None  # makes `ndarray & mask` call __rand__ instead of looping over the elements

    def __and__(self, other: MaskLike) -> Mask:
        return And((self, as_mask(other)))

    def __or__(self, other: MaskLike) -> Mask:
        return Or((self, as_mask(other)))

    def __rand__(self, other: MaskLike) -> Mask:
        return And((as_mask(other), self))

    def __ror__(self, other: MaskLike) -> Mask:
        return Or((as_mask(other), self))

    def __invert__(self) -> Mask:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a mask is neither true nor false: combine masks with & | ~ instead of and, or, not")


def _to_device(x: Any, device: Any) -> Any:
    if isinstance(x, Mask):
        return x.to(device)
    if isinstance(x, tuple) and x and all(isinstance(part, Mask) for part in x):
        parts = tuple(part.to(device) for part in x)
        return parts if any(a is not b for a, b in zip(parts, x, strict=True)) else x
    return as_tensor(x, device) if isinstance(x, np.ndarray) or is_tensor(x) else x


def as_mask(mask: MaskLike) -> Mask:
    """Return a `Mask` unchanged, and a boolean array or tensor as `regard.masks.given` does.

    mask        a `Mask`, or booleans that broadcast to (B, H, L, S); True = visible

    >>> as_mask([[True, False], [True, True]])
    given(<1×1×2×2 bools>)
    """
    return mask if isinstance(mask, Mask) else Mask.from_booleans(mask)


def _common_size(sizes: list[int]) -> int:
    """Return the size that is not 1; 1 if all are. It may be 0."""
    return next((size for size in sizes if size != 1), 1)


@dataclass(frozen=True)
class _Combination(Mask):
    parts: tuple[Mask, ...]

    operator = "?"
    decisive = HIDDEN  # if one part has this state, the combination has it too

    def __post_init__(self) -> None:
        flat: list[Mask] = []
        for part in self.parts:
            flat.extend(part.parts if isinstance(part, _Combination) and type(part) is type(self) else (part,))
        object.__setattr__(self, "parts", tuple(flat))
        for name, combine in (
            ("relative", all),
            ("by_key", all),
            ("parseable", all),
            ("batch_size", _common_size),
            ("head_count", _common_size),
        ):
            object.__setattr__(self, name, combine([getattr(part, name) for part in flat]))
        for count in ("batch_size", "head_count"):
            sizes = {getattr(part, count) for part in flat} - {1}
            if len(sizes) > 1:
                raise ValueError(
                    f"masks for different {'batch sizes' if count == 'batch_size' else 'numbers of heads'} "
                    f"cannot be combined: " + ", ".join(f"{part!r} has {getattr(part, count)}" for part in flat)
                )

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        pairs = self.parts[0].visible(b, h, q, k)
        for part in self.parts[1:]:
            more = part.visible(b, h, q, k)
            pairs = (pairs & more) if self.decisive == HIDDEN else (pairs | more)
        return pairs

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        states: States = (np.minimum if self.decisive == HIDDEN else np.maximum).reduce(
            [part.states(b, q0, q1, k0, k1) for part in self.parts]
        )
        return states

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        return {position for part in self.parts for position in part.boundaries(b, keys)}

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        for part in self.parts:
            part.check(batch, heads, queries, keys)

    def restrict(self, b: int, q0: int, q1: int, k0: int, k1: int) -> Mask | bool:
        decisive = self.decisive == VISIBLE
        remaining: list[Mask] = []
        for part in self.parts:
            restricted = part.restrict(b, q0, q1, k0, k1)
            if isinstance(restricted, Mask):
                remaining.append(restricted)
            elif restricted is decisive:
                return decisive
        if not remaining:
            return not decisive
        return remaining[0] if len(remaining) == 1 else replace(self, parts=tuple(remaining))

    def why(self, b: int, h: int, q: int, k: int) -> str:
        deciding = [part for part in self.parts if part.shows(b, h, q, k) is (self.decisive == VISIBLE)]
        return "; ".join(part.why(b, h, q, k) for part in (deciding[:1] or self.parts))

    @property
    def extent(self) -> tuple[int, int] | None:
        return next((part.extent for part in self.parts if part.extent), None)

    def __repr__(self) -> str:
        # & binds tighter than |, so only an "or" inside an "and" needs brackets.
        # Some versions of torch.compile trace __repr__() of a mask, but not repr(mask), here and below.
        parts = [part.__repr__() for part in self.parts]
        if isinstance(self, And):
            parts = [
                f"({text})" if isinstance(part, Or) else text for part, text in zip(self.parts, parts, strict=True)
            ]
        return f" {self.operator} ".join(parts)


class And(_Combination):
    """Visible where all parts show the pair: `a & b`."""

    operator, decisive = "&", HIDDEN


class Or(_Combination):
    """Visible where at least one part shows the pair: `a | b`."""

    operator, decisive = "|", VISIBLE


@dataclass(frozen=True)
class DerivedMask(Mask):
    """Base of masks made from one other mask, `mask`, whose batch size, heads and properties they share."""

    mask: Mask

    def __post_init__(self) -> None:
        for name in ("relative", "by_key", "parseable", "batch_size", "head_count"):
            object.__setattr__(self, name, getattr(self.mask, name))

    def boundaries(self, b: int, keys: int) -> Iterable[int]:
        return self.mask.boundaries(b, keys)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self.mask.check(batch, heads, queries, keys)

    @property
    def extent(self) -> tuple[int, int] | None:
        return self.mask.extent


class Not(DerivedMask):
    """Visible where the mask hides the pair: `~a`."""

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        pairs = self.mask.visible(b, h, q, k)
        return (not pairs) if isinstance(pairs, bool) else ~pairs

    def states(self, b: int, q0: int, q1: int, k0: Positions, k1: Positions) -> States:
        return (VISIBLE - self.mask.states(b, q0, q1, k0, k1)).astype(np.int8)

    def restrict(self, b: int, q0: int, q1: int, k0: int, k1: int) -> Mask | bool:
        restricted = self.mask.restrict(b, q0, q1, k0, k1)
        return ~restricted if isinstance(restricted, Mask) else not restricted

    def why(self, b: int, h: int, q: int, k: int) -> str:
        return f"~ inverts that {self.mask.why(b, h, q, k)}"

    def __invert__(self) -> Mask:
        return self.mask

    def __repr__(self) -> str:
        text = self.mask.__repr__()
        return f"~({text})" if isinstance(self.mask, _Combination) else f"~{text}"
