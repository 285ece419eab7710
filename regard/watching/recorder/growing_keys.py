"""Keys and values of a cache, stored once for all steps of a generation.

A cache that concatenates makes a new tensor of all keys in each step. The recorder follows `torch.cat`: if the first
part is a tensor whose rows are stored already, only the new rows are stored. A cache that writes new rows into one
tensor (a static cache) changes it in place. The recorder logs which rows are written: an earlier call stays valid if
only rows were written that its queries do not see.
"""

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.watching.call_inputs import storage_id
from regard.watching.written_rows import WriteLog, rows_of

CONCATENATIONS = {torch.cat, torch.concat, torch.concatenate}
REPETITIONS = {Tensor.__getitem__, Tensor.expand, Tensor.reshape, Tensor.repeat_interleave, torch.repeat_interleave}
WRITES = {Tensor.index_copy_, Tensor.__setitem__, Tensor.copy_}


@dataclass
class GrowingRows:
    """Rows of keys or values (B, H_kv, S, d), stored as the pieces by which they grew."""

    pieces: list[Tensor]
    versions: list[int] = field(default_factory=list)
    size: int = 0
    joined: Tensor | None = None  # the rows that were requested last

    def append(self, piece: Tensor) -> None:
        self.pieces.append(piece.detach())
        self.versions.append(piece._version)
        self.size += piece.shape[-2]

    def first(self, count: int) -> Tensor:
        """Return the first `count` rows."""
        if any(x._version != version for x, version in zip(self.pieces, self.versions, strict=True)):
            raise RuntimeError(
                "keys of a cache were changed in place after the call, so its weights are no longer known; "
                "watch with keep='statistics' or keep='copies'"
            )
        if self.joined is None or self.joined.shape[-2] < count:
            self.joined = self.pieces[0] if len(self.pieces) == 1 else torch.cat(self.pieces, -2)
            self.pieces, self.versions = [self.joined], [self.joined._version]
        return self.joined[..., :count, :]


@dataclass(slots=True)
class Origin:
    """A tensor whose first `size` rows are stored in `rows`, with `piece` as the rows that are not stored yet.

    `base` is the tensor from which it was made by repeating heads, often itself. If nothing is stored yet, its rows are
    the first piece.
    """

    tensor: weakref.ref[Tensor]
    base: weakref.ref[Tensor]
    version: int
    rows: GrowingRows
    size: int
    piece: Tensor | None
    shape: torch.Size  # (B, H_kv, S, d), before heads are repeated


class CacheTracker:
    """Follows tensors of keys and values from one step of a generation to the next."""

    def __init__(self) -> None:
        self.origins: dict[int, Origin] = {}
        self.writes: dict[int | None, WriteLog] = {}  # by storage; only of tensors that calls hold

    def is_used(self) -> bool:
        """Whether a tensor is followed, or writes into one are logged."""
        return bool(self.origins or self.writes)

    def follow(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Process one torch function."""
        if func in CONCATENATIONS:
            self._concatenate(args, kwargs, out)
        elif func in WRITES:
            self._write(func, args)
        elif args and (origin := self._origin(args[0])) is not None and _keeps_order(func, args):
            self._register(out, origin.rows, origin.size, origin.piece, origin.shape, origin.base)

    def _origin(self, x: Any) -> Origin | None:
        origin = self.origins.get(id(x))
        if origin is None or origin.tensor() is not x or x is None:
            return None
        return origin if x._version == origin.version else None

    def _register(
        self,
        x: Tensor,
        rows: GrowingRows,
        size: int,
        piece: Tensor | None,
        shape: torch.Size,
        base: weakref.ref[Tensor] | None = None,
    ) -> None:
        if x.is_inference():
            return
        key, origins = id(x), self.origins
        reference = weakref.ref(x, lambda _: origins.pop(key, None))
        origins[key] = Origin(reference, base or reference, x._version, rows, size, piece, shape)

    def _concatenate(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        parts = args[0] if args else kwargs.get("tensors", ())
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        if len(parts) != 2 or not isinstance(out, Tensor) or out.dim() != 4 or dim not in (-2, 2):
            return
        origin = self._origin(parts[0])
        if origin is not None and origin.rows.size and origin.piece is None and parts[0].shape == origin.shape:
            self._register(out, origin.rows, origin.size, parts[1], out.shape)
        else:
            self._register(out, GrowingRows([]), 0, None, out.shape)

    def _write(self, func: Any, args: tuple[Any, ...]) -> None:
        """Log the rows that `x.index_copy_(2, rows, new)`, `x[:, :, rows] = new` or `x.copy_(new)` writes."""
        x = args[0]
        if not isinstance(x, Tensor) or x.dim() < 3 or x.is_inference():
            return
        log = self.writes.get(storage_id(x))
        if log is None:
            return
        rows, written, part = rows_of(x), 0, x
        with torch._C.DisableTorchFunction():
            if func is Tensor.index_copy_:
                if len(args) > 2 and args[1] in (x.dim() - 2, -2):
                    written = _first_row(args[2], x)
            elif func is Tensor.__setitem__:
                index = list(args[1]) if isinstance(args[1], tuple) else [args[1]]
                if len(index) > x.dim() - 2:
                    written = _first_row(index[x.dim() - 2], x)
                    index[x.dim() - 2] = slice(written, None)
                if not all(isinstance(i, (int, slice)) for i in index):
                    return
                part = x[tuple(index)]
            start, end = rows_of(part)[:2] if part.dim() > 1 else rows[:2]
            log.writes[x._version] = rows._replace(start=start, end=end, first=rows.first + written)

    def write_log(self, x: Tensor) -> WriteLog:
        """Return the log of writes into the memory of a tensor that a call holds; they are logged from now on."""
        return self.writes.setdefault(storage_id(x), WriteLog())

    def store(self, x: Tensor) -> tuple[GrowingRows, int] | None:
        """Store a tensor of keys or values that was made by concatenation; return the rows and how many are its own."""
        if x.is_inference() or x.dim() != 4:
            return None
        origin = self._origin(x)
        if origin is None:
            return None
        batch, heads, size, width = origin.shape
        if x.shape[0] != batch or x.shape[1] % heads or x.shape[2:] != (size, width):
            return None
        if origin.rows.size == 0:
            base = origin.base()
            if base is None or base.is_inference():
                return None
            origin.rows.append(base)
            self._share(origin)
        elif origin.piece is not None:
            if origin.rows.size != origin.size:  # two continuations of the same keys: only one can share them
                return None
            origin.rows.append(origin.piece)
            self._share(origin)
        return origin.rows, size

    def _share(self, origin: Origin) -> None:
        """Mark the rows of a tensor, and of those made from it by repeating heads, as stored."""
        for other in list(self.origins.values()):
            if other.rows is origin.rows and other.shape == origin.shape:
                other.piece, other.size = None, origin.rows.size


def _first_row(index: Any, x: Tensor) -> int:
    """Return the first row that an index of the rows of x selects; 0 if it is not known."""
    if isinstance(index, int):
        return index % x.shape[-2]
    if isinstance(index, slice):
        return index.indices(x.shape[-2])[0] if index.step in (None, 1) else 0
    known = isinstance(index, Tensor) and index.dtype == torch.int64 and index.numel() > 0
    return max(0, int(index.min())) if known and int(index.min()) >= 0 else 0


def _keeps_order(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether a function only repeats each head for its group, as x[:, :, None].expand(…).reshape(…) does.

    Other indices may reorder batch items, heads or rows: beam search does so with x[indices].
    """
    if func is Tensor.__getitem__:
        index = args[1] if isinstance(args[1], tuple) else ()
        if any(isinstance(i, Tensor) for i in index):
            return False
        return index[:3] == (slice(None), slice(None), None) and all(i == slice(None) for i in index[3:])
    return not any(isinstance(x, Tensor) for x in args[1:])
