"""Custom masks: any boolean tensor, and any function of the four indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.attention.masks.export import Index
from regard.attention.masks.mask import And, Mask
from regard.attention.masks.mask_data import array_or_tensor, as_kind_of, dtype_kind


@dataclass(frozen=True, eq=False)
class BooleanTable(Mask):
    table: Any  # (B or 1, H or 1, L or 1, S) bools

    parseable, label = False, "the boolean mask"

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return int(self.table.shape[0])

    @property
    def head_count(self) -> int:  # type: ignore[override]
        return int(self.table.shape[1])

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        rows, keys = self.table.shape[2:]
        row = q - (keys - rows) if rows > 1 else q * 0
        return as_kind_of(k, self.table)[self._batch_index(b), self._head_index(h), row, k]

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self._check_batch(batch)
        for name, size, expected in (
            ("heads", self.head_count, heads),
            ("queries", self.table.shape[2], queries),
            ("keys", self.table.shape[3], keys),
        ):
            if size != expected and (size != 1 or name == "keys"):
                raise ValueError(
                    f"a mask of shape {tuple(self.table.shape)} does not fit (B={batch}, H={heads}, L={queries}, "
                    f"S={keys}): it has {size} {name}, expected {expected}"
                )

    @property
    def extent(self) -> tuple[int, int] | None:
        return int(self.table.shape[2] if self.table.shape[2] > 1 else self.table.shape[3]), int(self.table.shape[3])

    def __repr__(self) -> str:
        return f"given(<{'×'.join(str(n) for n in self.table.shape)} bools>)"


def given(visible: Any) -> Mask:
    """Return a boolean table (L, S), (H, L, S) or (B, H, L, S) as a mask, **True = visible**.

    >>> from regard.masks import causal
    >>> print(given([[True, False], [True, True]]) | causal())
    given(<1×1×2×2 bools>) | causal()
    ■ ·
    ■ ■
    """
    table = array_or_tensor(visible)
    if dtype_kind(table) != "bool":
        raise TypeError(
            f"a mask must be boolean with True = visible, got {dtype_kind(table)}; write mask != 0 for a 0/1 mask, "
            "and pass a mask of added numbers as bias="
        )
    if not 2 <= table.ndim <= 4:
        raise ValueError(f"a mask table has shape (L, S), (H, L, S) or (B, H, L, S), got {tuple(table.shape)}")
    return BooleanTable(table[(None,) * (4 - table.ndim)])


Mask.from_booleans = staticmethod(given)


@dataclass(frozen=True)
class Rule(Mask):
    function: Callable[[Index, Index, Index, Index], Any]
    name: str
    batch_size: int = 1
    head_count: int = 1

    parseable = False

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        # The function may use only some of the indices; the comparison gives its result the shape of all of them.
        return self.function(b, h, q, k) & (b + h + q + k == b + h + q + k)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self._check_batch(batch)

    def __repr__(self) -> str:
        return self.name


def rule(
    function: Callable[[Index, Index, Index, Index], Any], name: str | None = None, *, batch: int = 1, heads: int = 1
) -> Mask:
    """Return a mask whose rule is a function of batch item, head, query position and key position.

    function        function (b, h, q, k) of index arrays that broadcast; it returns booleans, True = visible
    name            text of the mask in messages; by default the name of the function
    batch, heads    number of batch items or heads, if the function distinguishes them

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
    if type(mask) is BooleanTable:
        return None, (mask,)
    if type(mask) is not And:
        return mask, ()
    tables = tuple(part for part in mask.parts if type(part) is BooleanTable)
    rules = tuple(part for part in mask.parts if type(part) is not BooleanTable)
    return (None if not rules else rules[0] if len(rules) == 1 else And(rules)), tables
