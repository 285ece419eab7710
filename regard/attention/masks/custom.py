"""Any boolean tensor, and any function of the four indices, as a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.attention.masks.mask import All, Index, Mask
from regard.attention.masks.mask_data import beside, is_tensor, kind
from regard.attention.masks.padding import fits_batch


@dataclass(frozen=True, eq=False)
class Given(Mask):
    table: Any  # (B or 1, H or 1, L or 1, S) bools

    fixed = False

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return int(self.table.shape[0])

    @property
    def head_count(self) -> int:  # type: ignore[override]
        return int(self.table.shape[1])

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        rows, keys = self.table.shape[2:]
        row = q - (keys - rows) if rows > 1 else q * 0
        return beside(self.table, k)[self._item(b), self._head(h), row, k]

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        fits_batch(self, batch)
        for what, mine, theirs in (
            ("heads", self.head_count, heads),
            ("queries", self.table.shape[2], queries),
            ("keys", self.table.shape[3], keys),
        ):
            if mine != theirs and (mine != 1 or what == "keys"):
                raise ValueError(
                    f"a mask of shape {tuple(self.table.shape)} does not fit (B={batch}, H={heads}, L={queries}, "
                    f"S={keys}): it has {mine} {what}, there are {theirs}"
                )

    def because(self, b: int, h: int, q: int, k: int) -> str:
        at = self.visible(np.array(b), np.array(h), np.array(q), np.array(k))
        return f"the boolean mask {'shows' if at else 'hides'} it"

    @property
    def extent(self) -> tuple[int, int] | None:
        return int(self.table.shape[2] if self.table.shape[2] > 1 else self.table.shape[3]), int(self.table.shape[3])

    def __repr__(self) -> str:
        return f"given(<{'×'.join(str(n) for n in self.table.shape)} bools>)"


def given(visible: Any) -> Mask:
    """A boolean table as a rule, (L, S), (H, L, S) or (B, H, L, S), **True = visible**.

    >>> from regard.masks import causal
    >>> print(given([[True, False], [True, True]]) | causal())
    given(<1×1×2×2 bools>) | causal()
    ■ ·
    ■ ■
    """
    table = visible if is_tensor(visible) else np.asarray(visible)
    if kind(table) != "bool":
        raise TypeError(
            f"a mask must be boolean with True = visible, got {kind(table)}; write mask != 0 for a 0/1 mask, "
            "and pass a mask of added numbers as bias="
        )
    if not 2 <= table.ndim <= 4:
        raise ValueError(f"a mask table has shape (L, S), (H, L, S) or (B, H, L, S), got {tuple(table.shape)}")
    return Given(table[(None,) * (4 - table.ndim)])


@dataclass(frozen=True)
class Rule(Mask):
    function: Callable[[Index, Index, Index, Index], Any]
    name: str
    batch_size: int = 1
    head_count: int = 1

    fixed = False

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        # A function may look at some of the indices only; its answer still has the shape of all.
        return self.function(b, h, q, k) & (b + h + q + k == b + h + q + k)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        fits_batch(self, batch)

    def because(self, b: int, h: int, q: int, k: int) -> str:
        seen = bool(self.visible(np.array(b), np.array(h), np.array(q), np.array(k)))
        return f"{self.name} {'shows' if seen else 'hides'} it"

    def __repr__(self) -> str:
        return self.name


def rule(
    function: Callable[[Index, Index, Index, Index], Any],
    name: str | None = None,
    *,
    batch: int = 1,
    heads: int = 1,
) -> Mask:
    """A rule of your own: a function of (batch, head, query place, key place) that works on index arrays.

    Say how many batch items or heads it tells apart, when it does.

    >>> print(rule(lambda b, h, q, k: (q + k) % 2 == 0, "checkers").draw(3, 3))
    ■ · ■
    · ■ ·
    ■ · ■
    """
    if not callable(function):
        raise TypeError(f"rule takes a function of (batch, head, query, key), got {type(function).__name__}")
    return Rule(function, str(name or getattr(function, "__name__", "rule")), batch, heads)


def split_boolean_tables(mask: Mask) -> tuple[Mask | None, tuple[Mask, ...]]:
    """Split a mask into the rules that block plans are made from, and its boolean tables.

    A pair is visible where the rules and every table show it. The tables are added to the scores as 0 and −inf.
    """
    parts = mask.parts if isinstance(mask, All) else (mask,)
    tables = tuple(part for part in parts if isinstance(part, Given))
    rules = tuple(part for part in parts if not isinstance(part, Given))
    return (None if not rules else rules[0] if len(rules) == 1 else All(rules)), tables
