"""What a head sees from a square: everything, its neighbourhood, or the lines that a game of rows is about.

    near3           row             column          rising          falling         lines
    · · · · · · ·   · · · · · · ·   · · ■ · · · ·   · · · · · ■ ·   ■ · · · · · ·   ■ · ■ · ■ · ·
    · ■ ■ ■ · · ·   · · · · · · ·   · · ■ · · · ·   · · · · ■ · ·   · ■ · · · · ·   · ■ ■ ■ · · ·
    · ■ ▣ ■ · · ·   ■ ■ ▣ ■ ■ ■ ■   · · ▣ · · · ·   …               …               ■ ■ ▣ ■ ■ ■ ■
    · ■ ■ ■ · · ·   · · · · · · ·   · · ■ · · · ·                                   · ■ ■ ■ · · ·

A square always sees itself. Squares are counted row by row, as `regard.nn.SpatialAttention` does.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

import torch
from jaxtyping import Bool
from torch import Tensor

Between = Callable[[Tensor, Tensor], Tensor]  # (rows apart, columns apart) → visible

LINES: dict[str, Between] = {
    "all": lambda down, right: (down == down) & (right == right),
    "row": lambda down, right: (down == 0) & (right == right),
    "column": lambda down, right: (right == 0) & (down == down),
    "rising": lambda down, right: down == -right,
    "falling": lambda down, right: down == right,
    "diagonals": lambda down, right: down.abs() == right.abs(),
    "lines": lambda down, right: (down == 0) | (right == 0) | (down.abs() == right.abs()),
}


def check_patterns(sees: Iterable[str], heads: int) -> tuple[str, ...]:
    """The kinds of sight as a tuple, or an error: all of them known, each for an equal share of the heads."""
    if isinstance(sees, str) or not all(isinstance(kind, str) for kind in sees):
        raise TypeError(f'sees lists what heads see, such as ("all", "near3", "row"), got {sees!r}')
    kinds = tuple(sees)
    for kind in kinds:
        _rule(kind)
    if not kinds or heads % len(kinds):
        raise ValueError(
            f"each kind of sight gets an equal share of the heads: {len(kinds)} kinds ({', '.join(kinds)}) "
            f"do not divide {heads} heads; repeat a kind to give it more"
        )
    return kinds


def attention_pattern(kind: str, rows: int, columns: int) -> Bool[Tensor, "s s"]:
    """Which squares (second index) are seen from which (first), S = rows · columns of each; **True = visible**.

    >>> attention_pattern("row", 6, 7).sum(-1).unique()
    tensor([7])
    >>> attention_pattern("near3", 6, 7)[0].sum()  # from a corner: 2×2
    tensor(4)
    """
    row, column = torch.arange(rows * columns) // columns, torch.arange(rows * columns) % columns
    return _rule(kind)(row[None, :] - row[:, None], column[None, :] - column[:, None])


def head_masks(sees: tuple[str, ...], heads: int, rows: int, columns: int) -> Bool[Tensor, "h s s"] | None:
    """The mask of all heads, or None where every head sees everything.

    Head i of H sees what stands at i · (number of kinds) // H, so that the halves of a head see what it saw.
    """
    return None if set(sees) == {"all"} else _remembered(sees, heads, rows, columns)


@lru_cache(maxsize=64)
def _remembered(sees: tuple[str, ...], heads: int, rows: int, columns: int) -> Tensor:
    with torch.inference_mode(False), torch.device("cpu"):  # what is kept must serve in training as well
        return torch.stack([attention_pattern(sees[head * len(sees) // heads], rows, columns) for head in range(heads)])


def _rule(kind: str) -> Between:
    near = re.fullmatch(r"near(\d+)", kind)
    if near is None:
        if kind not in LINES:
            raise ValueError(
                f"a head sees {', '.join(map(repr, LINES))} or a neighbourhood such as 'near3', got {kind!r}"
            )
        return LINES[kind]
    width = int(near[1])
    if width < 3 or width % 2 == 0:
        raise ValueError(f"a neighbourhood has an odd width from 3 on, with its square in the middle, got {kind!r}")
    return lambda down, right: (down.abs() <= width // 2) & (right.abs() <= width // 2)
