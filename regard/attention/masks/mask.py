"""What a mask is: a rule that says which (batch, head, query, key) are visible to each other.

A rule speaks of *places*. Key j stands at place j. The queries stand at the last places of the keys,
so query i of L over S keys stands at place i + S − L (causal means aligned at the end). Where L = S
a query's place is its index.

Three questions can be put to a rule, and the answers to the last two follow from `&`, `|`, `~` alone:

    visible(b, h, q, k)             is this pair visible?           elementwise on index arrays
    states(b, q0, q1, k0, k1)       does this block hold any hidden or visible pair?
    cuts(b, keys)                   at which places does the answer change abruptly?

The state of a block is HIDDEN (0), MIXED (1) or VISIBLE (2), which makes the algebra three-valued logic:
`&` is the minimum, `|` the maximum, `~` is 2 − state. MIXED may be said of a block that in truth is not:
then a little work is wasted, and the answer is still exact.

Everything here is NumPy; torch is touched only when a tensor is asked for, or given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Index = Any  # an int, a NumPy array or a tensor of ints: a rule only compares and combines them
States = NDArray[np.int8]

HIDDEN, MIXED, VISIBLE = 0, 1, 2


class Mask(ABC):
    """A rule on (batch, head, query place, key place). True means visible.

    >>> from regard import masks
    >>> rule = masks.causal() & masks.window(keys=2)
    >>> rule
    causal() & window(keys=2)
    >>> print(rule.draw(4, 4))
    ■ · · ·
    ■ ■ · ·
    · ■ ■ ·
    · · ■ ■
    >>> rule.explain(3, 0)
    'query 3 cannot see key 0: window(keys=2) hides it (the window reaches from key 2 to key 3)'
    """

    # -- the rule itself -------------------------------------------------------------------------------

    @abstractmethod
    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        """Whether each pair is visible; index arrays broadcast against each other."""

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        """State of each block: queries at places q0 … q1−1, keys at k0[n] … k1[n]−1."""
        return np.full(k0.shape, MIXED, np.int8)

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        """Places where a block had better end, so that it is all visible or all hidden."""
        return ()

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:  # noqa: B027 (most rules fit any size)
        """Raise ValueError when the rule cannot apply to this size."""

    @abstractmethod
    def because(self, b: int, h: int, q: int, k: int) -> str:
        """Which part of the rule shows or hides the pair, and why, in words."""

    relative: bool = False
    """Whether only the distance q − k matters."""

    batch_size: int = 1
    """How many batch items the rule tells apart; 1 when it is the same for all."""

    head_count: int = 1
    """How many heads the rule tells apart; 1 when it is the same for all."""

    fixed: bool = True
    """Whether the rule is made of numbers alone, and so is fully said by its repr."""

    def _item(self, b: Index) -> Index:
        """The batch index into the rule's own data: the first item's where it has but one."""
        return b if self.batch_size > 1 else b * 0

    def _head(self, h: Index) -> Index:
        return h if self.head_count > 1 else h * 0

    # -- algebra ---------------------------------------------------------------------------------------

    __array_ufunc__ = None  # ndarray & mask comes to __rand__ instead of being spread over the elements

    def __and__(self, other: MaskLike) -> Mask:
        return All((self, as_mask(other)))

    def __or__(self, other: MaskLike) -> Mask:
        return Some((self, as_mask(other)))

    def __rand__(self, other: MaskLike) -> Mask:
        return All((as_mask(other), self))

    def __ror__(self, other: MaskLike) -> Mask:
        return Some((as_mask(other), self))

    def __invert__(self) -> Mask:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a mask is neither true nor false: combine masks with & | ~ instead of and, or, not")

    # -- what it looks like as an array ----------------------------------------------------------------

    def numpy(
        self, queries: int, keys: int, *, batch: int | None = None, heads: int | None = None
    ) -> NDArray[np.bool_]:
        """The mask as a boolean array, (L, S), or (B, H, L, S) with 1 for what it does not tell apart.

        >>> from regard import masks
        >>> masks.causal().numpy(2, 3)
        array([[ True,  True, False],
               [ True,  True,  True]])
        """
        self.check(batch or self.batch_size, heads or self.head_count, queries, keys)
        b, h, q, k = self._grid(queries, keys, np.arange)
        shape = np.broadcast_shapes(b.shape, h.shape, q.shape, k.shape)
        seen = np.broadcast_to(np.asarray(self.visible(b, h, q, k), bool), shape).copy()
        return seen if batch or heads or self.batch_size > 1 or self.head_count > 1 else seen[0, 0]

    def tensor(
        self,
        queries: int,
        keys: int,
        *,
        batch: int | None = None,
        heads: int | None = None,
        device: torch.device | str | None = None,
    ) -> torch.Tensor:
        """The mask as a boolean tensor of the shape that `numpy` gives."""
        import torch

        self.check(batch or self.batch_size, heads or self.head_count, queries, keys)
        b, h, q, k = self._grid(queries, keys, lambda *a: torch.arange(*a, device=device))
        seen: torch.Tensor = self.visible(b, h, q, k)
        seen = seen.expand(self.batch_size, self.head_count, queries, keys)
        return seen if batch or heads or self.batch_size > 1 or self.head_count > 1 else seen[0, 0]

    def _grid(self, queries: int, keys: int, arange: Callable[..., Any]) -> tuple[Any, Any, Any, Any]:
        return (
            arange(self.batch_size)[:, None, None, None],
            arange(self.head_count)[None, :, None, None],
            arange(keys - queries, keys)[None, None, :, None],
            arange(keys)[None, None, None, :],
        )

    # -- the conventions of torch ----------------------------------------------------------------------

    def to_sdpa(self, queries: int, keys: int, **where: Any) -> torch.Tensor:
        """For `F.scaled_dot_product_attention(attn_mask=…)`: boolean, **True = attend**, as ours.

        >>> from regard import masks
        >>> masks.causal().to_sdpa(2, 2)
        tensor([[ True, False],
                [ True,  True]])
        """
        return self.tensor(queries, keys, **where)

    def to_mha(self, queries: int, keys: int, *, batch: int | None = None, heads: int | None = None) -> torch.Tensor:
        """For `nn.MultiheadAttention(attn_mask=…)`: boolean, **True = ignore**, the opposite of ours.

        (L, S) where the mask is the same for all; else (B·H, L, S), for which batch and heads are needed.

        >>> from regard import masks
        >>> masks.causal().to_mha(2, 2)
        tensor([[False,  True],
                [False, False]])
        """
        hidden = ~self.tensor(queries, keys)
        if hidden.dim() == 2:
            return hidden
        batch, heads = batch or self.batch_size, heads or 0
        if not heads:
            raise ValueError(
                f"{self!r} differs between batch items or heads, so nn.MultiheadAttention wants it as "
                "(batch·heads, L, S): say to_mha(L, S, heads=num_heads)"
            )
        self.check(batch, heads, queries, keys)
        return hidden.expand(batch, heads, queries, keys).reshape(batch * heads, queries, keys)

    def to_flex(self, queries: int, keys: int) -> Callable[[Any, Any, Any, Any], Any]:
        """For `torch.nn.attention.flex_attention`: a `mask_mod(b, h, q_idx, kv_idx)`, True = attend.

        FlexAttention counts queries from 0; ours stand at the end of the keys, hence the two lengths.

        >>> from regard import masks
        >>> mod = masks.causal().to_flex(1, 3)        # one query, three keys: it sees all of them
        >>> mod(0, 0, 0, 2)
        True
        """
        self.check(self.batch_size, self.head_count, queries, keys)
        shift = keys - queries
        # FlexAttention counts the arguments of what it is given: exactly these four.
        return lambda b, h, q_idx, kv_idx: self.visible(b, h, q_idx + shift, kv_idx)

    # -- in words and as a drawing ---------------------------------------------------------------------

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
        """In words, which rule shows or hides a pair. Give `queries` and `keys` where L ≠ S."""
        shift = 0 if queries is None or keys is None else keys - queries
        if not (0 <= query < (queries or query + 1) and 0 <= key < (keys or key + 1)):
            raise ValueError(f"query {query} and key {key} must be indices inside {queries} queries and {keys} keys")
        place = query + shift
        seen = bool(self.visible(np.array(batch), np.array(head), np.array(place), np.array(key)))
        at = f"query {query}" + (f" (at place {place})" if shift else "")
        return f"{at} {'sees' if seen else 'cannot see'} key {key}: {self.because(batch, head, place, key)}"

    def draw(self, queries: int | None = None, keys: int | None = None, *, batch: int = 0, head: int = 0) -> str:
        """The mask as text, a row a query: ■ visible, · hidden. At most 32 of each are drawn."""
        natural = self.extent or (8, 8)
        queries, keys = queries or natural[0], keys or natural[1]
        rows, columns = min(queries, 32), min(keys, 32)
        q, k = np.arange(keys - queries, keys)[:rows, None], np.arange(columns)[None, :]
        seen = np.broadcast_to(np.asarray(self.visible(np.array(batch), np.array(head), q, k)), (rows, columns))
        more = " …" if columns < keys else ""
        lines = [" ".join("■" if cell else "·" for cell in row) + more for row in seen]
        return "\n".join([*lines, "…"] if rows < queries else lines)

    def __str__(self) -> str:
        return f"{self!r}\n{self.draw()}"

    @property
    def extent(self) -> tuple[int, int] | None:
        """The (queries, keys) that the rule's own data covers; None when it fits any."""
        return None

    def within(self, b: int, q0: int, q1: int, k0: int, k1: int) -> Mask | bool:
        """The same rule on one block only, with every part that is constant there taken out."""
        state = int(self.states(b, q0, q1, np.array([k0]), np.array([k1]))[0])
        return self if state == MIXED else state == VISIBLE


MaskLike = Any  # Mask | boolean tensor | boolean array | nested lists of bools; as_mask says what it cannot take


def as_mask(thing: MaskLike) -> Mask:
    """A Mask, from a Mask or from anything boolean that has a shape."""
    from regard.attention.masks.custom import given

    return thing if isinstance(thing, Mask) else given(thing)


@dataclass(frozen=True)
class _Combined(Mask):
    parts: tuple[Mask, ...]

    word = "?"
    absorbing = HIDDEN  # the state that decides alone

    def __post_init__(self) -> None:
        flat: list[Mask] = []
        for part in self.parts:
            flat.extend(part.parts if isinstance(part, _Combined) and type(part) is type(self) else (part,))
        object.__setattr__(self, "parts", tuple(flat))
        for count in ("batch_size", "head_count"):
            sizes = {getattr(part, count) for part in flat} - {1}
            if len(sizes) > 1:
                raise ValueError(
                    f"masks for different {'batch sizes' if count == 'batch_size' else 'numbers of heads'} "
                    f"cannot be combined: " + ", ".join(f"{part!r} has {getattr(part, count)}" for part in flat)
                )

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        seen = self.parts[0].visible(b, h, q, k)
        for part in self.parts[1:]:
            more = part.visible(b, h, q, k)
            seen = (seen & more) if self.absorbing == HIDDEN else (seen | more)
        return seen

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        each = [part.states(b, q0, q1, k0, k1) for part in self.parts]
        out: States = (np.minimum if self.absorbing == HIDDEN else np.maximum).reduce(each)
        return out

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        return {place for part in self.parts for place in part.cuts(b, keys)}

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        for part in self.parts:
            part.check(batch, heads, queries, keys)

    def within(self, b: int, q0: int, q1: int, k0: int, k1: int) -> Mask | bool:
        decides = self.absorbing == VISIBLE
        left: list[Mask] = []
        for part in self.parts:
            rest = part.within(b, q0, q1, k0, k1)
            if isinstance(rest, Mask):
                left.append(rest)
            elif rest is decides:
                return decides
        if not left:
            return not decides
        return left[0] if len(left) == 1 else replace(self, parts=tuple(left))

    def because(self, b: int, h: int, q: int, k: int) -> str:
        decides = self.absorbing == VISIBLE
        at = np.array(b), np.array(h), np.array(q), np.array(k)
        deciding = [part for part in self.parts if bool(part.visible(*at)) is decides]
        return "; ".join(part.because(b, h, q, k) for part in (deciding[:1] or self.parts))

    @property
    def extent(self) -> tuple[int, int] | None:
        return next((part.extent for part in self.parts if part.extent), None)

    @property
    def relative(self) -> bool:  # type: ignore[override]  # a combination computes what a leaf states
        return all(part.relative for part in self.parts)

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        return all(part.fixed for part in self.parts)

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return max(part.batch_size for part in self.parts)

    @property
    def head_count(self) -> int:  # type: ignore[override]
        return max(part.head_count for part in self.parts)

    def __repr__(self) -> str:
        # & binds tighter than |, so only an "or" inside an "and" needs brackets.
        inside = (
            f"({part!r})" if isinstance(part, Some) and isinstance(self, All) else repr(part) for part in self.parts
        )
        return f" {self.word} ".join(inside)


class All(_Combined):
    """Visible where every part says so: `a & b`."""

    word, absorbing = "&", HIDDEN


class Some(_Combined):
    """Visible where some part says so: `a | b`."""

    word, absorbing = "|", VISIBLE


@dataclass(frozen=True)
class _Wrapped(Mask):
    rule: Mask

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        return self.rule.cuts(b, keys)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self.rule.check(batch, heads, queries, keys)

    @property
    def extent(self) -> tuple[int, int] | None:
        return self.rule.extent

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return self.rule.relative

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        return self.rule.fixed

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return self.rule.batch_size

    @property
    def head_count(self) -> int:  # type: ignore[override]
        return self.rule.head_count


class Not(_Wrapped):
    """Visible where the rule hides: `~a`."""

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        seen = self.rule.visible(b, h, q, k)
        return (not seen) if isinstance(seen, bool) else ~seen

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        return (VISIBLE - self.rule.states(b, q0, q1, k0, k1)).astype(np.int8)

    def within(self, b: int, q0: int, q1: int, k0: int, k1: int) -> Mask | bool:
        rest = self.rule.within(b, q0, q1, k0, k1)
        return ~rest if isinstance(rest, Mask) else not rest

    def because(self, b: int, h: int, q: int, k: int) -> str:
        return f"~ turns round that {self.rule.because(b, h, q, k)}"

    def __invert__(self) -> Mask:
        return self.rule

    def __repr__(self) -> str:
        return f"~({self.rule!r})" if isinstance(self.rule, _Combined) else f"~{self.rule!r}"


@dataclass(frozen=True)
class Moved(_Wrapped):
    """The rule seen from elsewhere: place q here is place q + queries there, key k is k + keys there.

    A piece of a longer sequence is attended to with the rule of the whole moved to the piece.
    """

    queries: int = 0
    keys: int = 0

    def visible(self, b: Index, h: Index, q: Index, k: Index) -> Any:
        return self.rule.visible(b, h, q + self.queries, k + self.keys)

    def states(self, b: int, q0: int, q1: int, k0: NDArray[np.int64], k1: NDArray[np.int64]) -> States:
        return self.rule.states(b, q0 + self.queries, q1 + self.queries, k0 + self.keys, k1 + self.keys)

    def cuts(self, b: int, keys: int) -> Iterable[int]:
        return (place - self.keys for place in self.rule.cuts(b, keys + self.keys))

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """The whole was checked by the one who moved it; its length is not known here."""

    def within(self, b: int, q0: int, q1: int, k0: int, k1: int) -> Mask | bool:
        rest = self.rule.within(b, q0 + self.queries, q1 + self.queries, k0 + self.keys, k1 + self.keys)
        return replace(self, rule=rest) if isinstance(rest, Mask) else rest

    def because(self, b: int, h: int, q: int, k: int) -> str:
        return self.rule.because(b, h, q + self.queries, k + self.keys)

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        return False  # its repr is not in the language that parse reads

    def __repr__(self) -> str:
        return f"moved({self.rule!r}, queries={self.queries}, keys={self.keys})"

    @classmethod
    def of(cls, rule: Mask, *, queries: int, keys: int) -> Mask:
        """Moved, unless the move changes nothing."""
        unmoved = (rule.relative and queries == keys) or (queries == 0 and keys == 0)
        return rule if unmoved else cls(rule, queries=queries, keys=keys)
