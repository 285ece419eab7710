"""Attention patterns of a board: the squares that a head attends to from each square.

    near3           row             column          rising          falling         lines
    · · · · · · ·   · · · · · · ·   · · ■ · · · ·   · · · · · ■ ·   ■ · · · · · ·   ■ · ■ · ■ · ·
    · ■ ■ ■ · · ·   · · · · · · ·   · · ■ · · · ·   · · · · ■ · ·   · ■ · · · · ·   · ■ ■ ■ · · ·
    · ■ ▣ ■ · · ·   ■ ■ ▣ ■ ■ ■ ■   · · ▣ · · · ·   …               …               ■ ■ ▣ ■ ■ ■ ■
    · ■ ■ ■ · · ·   · · · · · · ·   · · ■ · · · ·                                   · ■ ■ ■ · · ·

A square is always visible to itself. Squares are numbered row by row, as in `regard.nn.SpatialAttention`.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.kernels.private_torch_operators import may_cache_tensors

Rule = Callable[[Tensor, Tensor], Tensor]  # (rows down, columns right) → visible

RULES: dict[str, Rule] = {
    "all": lambda down, right: (down == down) & (right == right),
    "row": lambda down, right: (down == 0) & (right == right),
    "column": lambda down, right: (right == 0) & (down == down),
    "rising": lambda down, right: down == -right,
    "falling": lambda down, right: down == right,
    "diagonals": lambda down, right: down.abs() == right.abs(),
    "lines": lambda down, right: (down == 0) | (right == 0) | (down.abs() == right.abs()),
}


def offsets(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return the offsets (S, S) from each square (first index) to each square (second): rows down, columns right."""
    row, column = torch.arange(rows * columns) // columns, torch.arange(rows * columns) % columns
    return row[None, :] - row[:, None], column[None, :] - column[:, None]


def check_patterns(sees: Iterable[str], heads: int) -> tuple[str, ...]:
    """Return the names of patterns as a tuple; raise unless all exist and each gets an equal share of the heads."""
    if isinstance(sees, str) or not all(isinstance(name, str) for name in sees):
        raise TypeError(f'sees must be a list of attention patterns such as ("all", "near3", "row"), got {sees!r}')
    names = tuple(sees)
    for name in names:
        _rule(name)
    if not names or heads % len(names):
        raise ValueError(
            f"each attention pattern gets an equal share of the heads: {len(names)} patterns ({', '.join(names)}) "
            f"do not divide {heads} heads; repeat a pattern to give it more"
        )
    return names


def attention_pattern(name: str, rows: int, columns: int) -> Bool[Tensor, "s s"]:
    """Return which squares (second index) are visible from which (first), S = rows · columns; **True = visible**.

    name            "all", "row", "column", "rising", "falling", "diagonals", "lines", or "near" and a width such as
                    "near3"
    rows, columns   size of the board

    >>> attention_pattern("row", 6, 7).sum(-1).unique()
    tensor([7])
    >>> attention_pattern("near3", 6, 7)[0].sum()  # from a corner: 2×2
    tensor(4)
    """
    return _rule(name)(*offsets(rows, columns))


def head_masks(sees: tuple[str, ...], heads: int, rows: int, columns: int) -> Bool[Tensor, "h s s"] | None:
    """Return the mask of all heads, or None if every head attends to all squares.

    Head i of H has the pattern number i · (number of patterns) // H, so the halves of a split head keep its pattern.
    """
    if set(sees) == {"all"}:
        return None
    return (_cached_masks if may_cache_tensors() else _masks)(sees, heads, rows, columns)


def _masks(sees: tuple[str, ...], heads: int, rows: int, columns: int) -> Tensor:
    with torch.inference_mode(False), torch.device("cpu"):  # training cannot use inference tensors
        return torch.stack([attention_pattern(sees[head * len(sees) // heads], rows, columns) for head in range(heads)])


_cached_masks = lru_cache(maxsize=64)(_masks)


def _rule(name: str) -> Rule:
    if name in RULES:
        return RULES[name]
    near = re.fullmatch(r"near(\d+)", name)
    if near is None:
        raise ValueError(f"an attention pattern is {', '.join(map(repr, RULES))}, 'near3', 'near5' …, got {name!r}")
    width = int(near[1])
    if width < 3 or width % 2 == 0:
        raise ValueError(f"a neighbourhood must have an odd width of at least 3, got {name!r}")
    return lambda down, right: (down.abs() <= width // 2) & (right.abs() <= width // 2)
