"""Selections of heads, queries, keys and batch items of an intervention, resolved for one call.

Indices count from 0; negative ones from the end; slices are those of Python. Heads, batch items and keys are those of
the call. Queries are numbered by their positions among the keys if the keys come from a cache, so that a generation
with a cache is changed as one forward pass over the whole text. In all other calls, they are the queries of the call.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.watching.call import Call

Selection = Any  # int | slice | Sequence[int] | integer tensor | None; checked by `check_selection`


def check_selection(name: str, selection: Any) -> Any:
    """Return a selection as an index, a slice, a tuple of indices or None; raise TypeError for anything else."""
    if isinstance(selection, Tensor) and not selection.dtype.is_floating_point and selection.dtype != torch.bool:
        selection = selection.tolist()
    if isinstance(selection, range | list | tuple | set):
        indices = tuple(selection)
        if not indices:
            raise ValueError(
                f"{name} selects nothing: got an empty {type(selection).__name__}; leave {name} out for all"
            )
        if all(isinstance(x, int) and not isinstance(x, bool) for x in indices):
            return indices
    elif isinstance(selection, int | slice | None) and not isinstance(selection, bool):
        return selection
    raise TypeError(f"{name} must be an index, a slice or a list of indices, got {selection!r}")


@dataclass
class Selector:
    """Resolves the selections of one intervention, and remembers what no call has had so far."""

    label: str  # the intervention and its pattern, for messages
    missing: dict[str, set[int]] = field(default_factory=dict)  # by axis: indices that no call has had
    present: dict[str, set[int]] = field(default_factory=dict)  # by axis: indices that some call has had
    nothing: dict[str, str] = field(default_factory=dict)  # by axis: a slice that has selected nothing so far

    def select(
        self, call: Call, axis: str, selection: Selection, size: int, *, first: int = 0, growing: bool = False
    ) -> Int[Tensor, "count"] | None:
        """Return the indices of a selection, ascending; None for all.

        size        number of heads, queries, keys or batch items of the call
        first       number of the first of them: the position of the first query
        growing     whether indices beyond the end may belong to a later call of a generation
        """
        if selection is None:
            return None
        end = first + size
        if isinstance(selection, slice):
            numbers = [n for n in range(*selection.indices(end)) if n >= first]
            if numbers:
                self.nothing[axis] = ""
            else:
                self.nothing.setdefault(axis, f"{axis}={selection} selects nothing of {end} in {call.name!r}")
        else:
            numbers = []
            for index in [selection] if isinstance(selection, int) else selection:
                number = index + end if index < 0 else index
                if first <= number < end:
                    numbers.append(number)
                    self.present.setdefault(axis, set()).add(int(index))
                elif growing and (number >= end or 0 <= number < first):
                    self.missing.setdefault(axis, set()).add(int(index))
                else:
                    one = {"heads": "head", "queries": "query", "keys": "key", "batch": "batch item"}[axis]
                    which = f"{first} to {end - 1}" if size else "none"
                    raise ValueError(
                        f"{self.label}: there is no {one} {index} in {call.name or 'the model'!r}, which has "
                        f"{size} {axis if axis != 'batch' else 'batch items'} ({which})"
                    )
        indices = torch.tensor(sorted({n - first for n in numbers}), dtype=torch.long)
        return indices.to(call.like.device)

    def complaints(self) -> list[str]:
        """Return what was selected but found in no call."""
        never = [
            f"{self.label}: no call had {axis} {', '.join(map(str, sorted(gone)))}"
            for axis, indices in self.missing.items()
            if (gone := indices - self.present.get(axis, set()))
        ]
        return never + [f"{self.label}: {text}" for text in self.nothing.values() if text]
