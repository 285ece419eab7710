"""Positions with the exact score of every move, on disk: what a network learns from, and is graded by.

A folder holds `labels.json` (the size of the board) and shards, `000000123.npy`, which are written whole or not at all
and never changed. A record has 16 bytes on a board of 7 columns:

    key       position + mask + bottom, of a position and its mirror image the smaller: in each column the highest bit
              stands on the topmost stone, and the bits below it are the stones of the side to move
    scores    of every column, for the side to move; FULL where it is full
    source    how the position was come by, a number of `SOURCES`

What is in two shards counts once, so that any number of commands may write into one folder.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.connectx.game.bitboard import Shape
from regard.connectx.game.board_batch import checked_shape
from regard.files import write_atomic

FULL = -128
SOURCES = ("drawn", "network")  # by lot and perfect play; by the play of a network
HELD_OUT = 64  # one position of so many is never learnt from

Records = NDArray[np.void]
Bits = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Labels:
    """N positions: stones of the side to move and all stones (N,), scores (N, columns), source (N,).

    They are in the order of their keys, whatever shards they came from.
    """

    shape: Shape
    position: Bits
    mask: Bits
    scores: NDArray[np.int8]
    source: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.int64] | slice) -> "Labels":
        return Labels(self.shape, self.position[which], self.mask[which], self.scores[which], self.source[which])

    @property
    def stones(self) -> NDArray[np.int64]:
        """How many stones lie on each board."""
        return np.bitwise_count(self.mask).astype(np.int64)

    def without(self, position: Bits, mask: Bits) -> "Labels":
        """All but these positions, and but their mirror images."""
        keys = keys_of(position, mask, self.shape)
        other = keys_of(mirrored_bits(position, self.shape), mirrored_bits(mask, self.shape), self.shape)
        return self[~np.isin(keys_of(self.position, self.mask, self.shape), np.concatenate([keys, other]))]

    def parts(self) -> tuple["Labels", "Labels"]:
        """What may be learnt from, and what is held out: by the key alone, so that a position never changes sides."""
        held = self.held_out()
        return self[~held], self[held]

    def held_out(self) -> NDArray[np.bool_]:
        """(N,) which are never learnt from."""
        held: NDArray[np.bool_] = _scattered(keys_of(self.position, self.mask, self.shape)) % np.uint64(HELD_OUT) == 0
        return held


def record_type(columns: int) -> np.dtype[np.void]:
    """What a position takes on disk."""
    return np.dtype([("key", "<u8"), ("scores", "i1", (columns,)), ("source", "u1")])


def keys_of(position: Bits, mask: Bits, shape: Shape) -> NDArray[np.uint64]:
    """The key of each position as it stands, not of its mirror image.

    >>> from regard.connectx import Board
    >>> board = Board.from_moves("44")
    >>> one = keys_of(np.array([board.position]), np.array([board.mask]), board.shape)
    >>> [int(bits[0]) for bits in stones_of(one, board.shape)] == [board.position, board.mask]
    True
    """
    return position.view(np.uint64) + mask.view(np.uint64) + np.uint64(shape.bottom)


def stones_of(keys: NDArray[np.uint64], shape: Shape) -> tuple[Bits, Bits]:
    """Position and mask of each key."""
    position, mask = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint64)
    for column in range(shape.columns):
        shift = np.uint64(column * shape.stride)
        bits = (keys >> shift) & np.uint64((1 << shape.stride) - 1)
        top = np.uint64(1) << (np.frexp(bits.astype(np.float64))[1] - 1).astype(np.uint64)
        position |= (bits - top) << shift
        mask |= (top - np.uint64(1)) << shift
    return position.view(np.int64), mask.view(np.int64)


def mirrored_bits(bits: Bits, shape: Shape) -> Bits:
    """Left and right exchanged, in every number."""
    given, turned = bits.view(np.uint64), np.zeros(len(bits), np.uint64)
    one = np.uint64((1 << shape.stride) - 1)
    for column in range(shape.columns):
        part = (given >> np.uint64(column * shape.stride)) & one
        turned |= part << np.uint64((shape.columns - 1 - column) * shape.stride)
    return turned.view(np.int64)


def recorded(position: Bits, mask: Bits, scores: NDArray[np.int8], source: int, shape: Shape) -> Records:
    """Records of these positions, each or its mirror image, whichever has the smaller key."""
    keys = keys_of(position, mask, shape)
    other = keys_of(mirrored_bits(position, shape), mirrored_bits(mask, shape), shape)
    records = np.zeros(len(keys), record_type(shape.columns))
    records["key"] = np.minimum(keys, other)
    records["scores"] = np.where((other < keys)[:, None], scores[:, ::-1], scores)
    records["source"] = source
    return records


def write_shard(folder: Path, number: int, records: Records) -> None:
    """Write records that no later command changes."""
    part = folder / f".{number:09d}.{os.getpid()}.npy"
    try:
        np.save(part, records)
        final = folder / f"{number:09d}.npy"
        while final.exists():  # another command took the number
            number += 1
            final = folder / f"{number:09d}.npy"
        part.rename(final)
    finally:
        part.unlink(missing_ok=True)


def shards(folder: Path) -> list[Path]:
    """The shards of a folder, oldest first."""
    return sorted(folder.glob("[0-9]*.npy"))


def open_folder(folder: str | os.PathLike[str], size: tuple[int, int, int] | None = None) -> tuple[Path, Shape]:
    """The folder and the shape of its boards; made for boards of this size if it is not there yet."""
    path = Path(folder)
    about = path / "labels.json"
    if not about.exists():
        if size is None:
            raise ValueError(f"{path} holds no labels; make some with: regard connectx label {path}")
        shape = checked_shape(*size)
        path.mkdir(parents=True, exist_ok=True)
        write_atomic(about, json.dumps({"format": 1, "size": list(size)}) + "\n")
        return path, shape
    try:
        said = json.loads(about.read_text(encoding="utf-8"))
        rows, columns, inarow = (int(value) for value in said["size"])
        if said["format"] != 1:
            raise ValueError(f"format {said['format']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{about} was not written by regard connectx label ({error}); take another folder") from None
    if size is not None and size != (rows, columns, inarow):
        raise ValueError(f"{path} holds labels of {rows}x{columns}x{inarow}, got a size of {'x'.join(map(str, size))}")
    return path, checked_shape(rows, columns, inarow)


def read_labels(folder: str | os.PathLike[str], *, most: int | None = None) -> Labels:
    """All labels of a folder, or those of its first `most` shards, each position once."""
    path, shape = open_folder(folder)
    wanted = record_type(shape.columns)
    parts = [np.zeros(0, wanted)]
    for shard in shards(path)[:most]:
        records = np.load(shard, allow_pickle=False)
        if records.dtype != wanted:
            raise ValueError(f"{shard} holds {records.dtype}, not labels of {shape.columns} columns; remove it")
        parts.append(records)
    records = np.concatenate(parts)
    _, first = np.unique(records["key"], return_index=True)
    records = records[first]
    position, mask = stones_of(np.ascontiguousarray(records["key"]), shape)
    return Labels(shape, position, mask, np.ascontiguousarray(records["scores"]), records["source"].copy())


def _scattered(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers without the order of the keys (the last step of splitmix64)."""
    bits = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
