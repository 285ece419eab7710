"""From the mask functions of transformers to masks of regard.

A mask function of transformers.masking_utils is a Python function of (batch, head, query, key); its parameters, such
as the size of a window, are in its closure. `mask_parts` reads them. Functions of other origin are not recognised.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.attention import masks
from regard.attention.masks import Mask
from regard.attention.masks.mask import And, Or

MaskFunction = Callable[..., Any]
Part = Callable[[int, int], Mask | None]  # keys from start to stop − 1 → mask; None where its data do not reach


class UnknownMaskError(Exception):
    """The mask function is not one that regard has a mask for."""


class _WindowStart:
    """A window without an upper end, which transformers combines with a causal mask: k > q − keys."""

    def __init__(self, keys: int) -> None:
        self.keys = keys


def find_mask(function: MaskFunction, start: int, stop: int) -> Mask | None:
    """Return the mask over the keys `start` … `stop` − 1 that equals a mask function; None if all pairs are visible.

    Raise UnknownMaskError if there is none.
    """
    found = _parts(function, start, stop)
    windows = [part.keys for part in found if isinstance(part, _WindowStart)]
    parts = [part for part in found if isinstance(part, Mask)]
    if windows:
        if masks.causal() not in parts:
            raise UnknownMaskError
        parts = [part for part in parts if part != masks.causal()]
        keys = min(windows)
        parts.insert(0, masks.causal() if keys >= stop - start else masks.window(keys=keys))
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def is_causal(mask: Mask | None) -> bool:
    """Return whether no query sees a later key, judged by the parts that are causal or windows."""
    parts = mask.parts if isinstance(mask, And) else (mask,)
    return any(part == masks.causal() or (part is not None and _looks_back(part)) for part in parts)


def _looks_back(part: Mask) -> bool:
    bounds = getattr(part, "bounds", None)
    return bounds is not None and bounds()[0] >= 0


def _parts(function: MaskFunction, start: int, stop: int) -> list[Mask | _WindowStart]:
    """Return the masks that must all show a pair."""
    name = getattr(function, "__qualname__", "")
    if getattr(function, "__module__", "") != "transformers.masking_utils":
        raise UnknownMaskError
    if name == "causal_mask_function":
        return [masks.causal()]
    if name == "bidirectional_mask_function":
        return []
    reader = _READERS.get(name.removesuffix(".<locals>.inner_mask"))
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    if reader is None or code is None:
        raise UnknownMaskError
    values = dict(zip(code.co_freevars, (cell.cell_contents for cell in cells), strict=True))
    try:
        return reader(values, start, stop)
    except KeyError:  # another version of transformers calls its variables differently
        raise UnknownMaskError from None


def _and(values: dict[str, Any], start: int, stop: int) -> list[Mask | _WindowStart]:
    return [part for function in values["mask_functions"] for part in _parts(function, start, stop)]


def _or(values: dict[str, Any], start: int, stop: int) -> list[Mask | _WindowStart]:
    found = [find_mask(function, start, stop) for function in values["mask_functions"]]
    shown = [mask for mask in found if mask is not None]
    return [Or(tuple(shown))] if len(shown) == len(found) else []


def _window_start(values: dict[str, Any], start: int, stop: int) -> list[Mask | _WindowStart]:
    return [_WindowStart(int(values["sliding_window"]))]


def _window_both_sides(values: dict[str, Any], start: int, stop: int) -> list[Mask | _WindowStart]:
    reach = int(values["sliding_window"])
    return [] if reach >= stop - start else [masks.window(keys=2 * reach + 1, ahead=reach)]


def _chunks(values: dict[str, Any], start: int, stop: int) -> list[Mask | _WindowStart]:
    first = values["left_padding"]
    positions = torch.arange(start, stop, device=first.device)
    return [masks.documents((positions - first[:, None]).div(values["chunk_size"], rounding_mode="floor"))]


def _documents(values: dict[str, Any], start: int, stop: int) -> list[Mask | _WindowStart]:
    return [masks.documents(_columns(values["packed_sequence_mask"], start, stop))]


def _inside_documents(values: dict[str, Any], start: int, stop: int) -> list[Mask | _WindowStart]:
    # Positions grow by 1 inside a document, so distances are those of the whole sequence. Pairs of different documents
    # are hidden by the document mask that transformers always adds.
    inner = _parts(values["mask_function"], start, stop)
    if not all(isinstance(part, _WindowStart) or part.relative for part in inner):
        raise UnknownMaskError
    return inner


def _blocks(values: dict[str, Any], start: int, stop: int) -> list[Mask | _WindowStart]:
    ids = _columns(values["block_sequence_ids"], start, stop)
    return [masks.documents(ids), masks.padding(ids >= 0)]


def _padding(values: dict[str, Any], start: int, stop: int) -> list[Mask | _WindowStart]:
    return [masks.padding(_columns(values["padding_mask"], start, stop).bool())]


def _columns(table: Tensor, start: int, stop: int) -> Tensor:
    if table.shape[1] < stop:
        raise UnknownMaskError
    return table[:, start:stop]


_READERS: dict[str, Callable[[dict[str, Any], int, int], list[Mask | _WindowStart]]] = {
    "and_masks.<locals>.and_mask": _and,
    "or_masks.<locals>.or_mask": _or,
    "sliding_window_overlay": _window_start,
    "sliding_window_bidirectional_overlay": _window_both_sides,
    "chunked_overlay": _chunks,
    "packed_sequence_mask_function": _documents,
    "remap_positions_for_packed_sequence": _inside_documents,
    "blockwise_overlay": _blocks,
    "padding_mask_function": _padding,
}
