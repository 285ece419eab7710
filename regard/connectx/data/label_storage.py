"""Labels on disk: positions with the exact score of every move, for training and evaluating networks.

A folder contains `labels.json` (the board size) and shards, `000000123.npy`, which are written atomically and never
changed. A record has 16 bytes on a board with 7 columns:

    key       position + mask + bottom, the smaller one of a position and its mirror image: in each column the highest
              bit is above the top stone, and the bits below it are the stones of the side to move
    scores    score of every column for the side to move; FULL where the column is full
    source    how the position was generated, an index of `SOURCES`

A position that occurs in several shards is read once, so any number of commands may write into one folder.
"""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.connectx.game.bitboard import Shape, mirror
from regard.connectx.game.board_batch import checked_shape
from regard.files import explain_damage, read_array, read_json, write_array, write_json

FULL = -128
SOURCES = ("drawn", "network")  # games of random and perfect moves; games of a network
HELD_OUT = 64  # one position in 64 is held out from training

Records = NDArray[np.void]
Bits = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Labels:
    """N positions in the order of their keys, with the score of every move.

    shape           size of the board
    position, mask  stones of the side to move, and all stones, (N,)
    scores          score of every column for the side to move, (N, columns)
    source          how each position was generated, an index of `SOURCES`, (N,)

    >>> from regard.connectx import Board
    >>> empty = np.zeros(1, np.int64)
    >>> scores = np.array([[-2, -1, 0, 1, 0, -1, -2]], np.int8)
    >>> len(Labels(Board().shape, empty, empty, scores, np.zeros(1, np.uint8)))
    1
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
        """Number of stones of each position."""
        return np.bitwise_count(self.mask).astype(np.int64)

    def without(self, position: Bits, mask: Bits) -> "Labels":
        """Return all labels except those of these positions and of their mirror images."""
        excluded = canonical_keys(position, mask, self.shape)
        return self[~np.isin(canonical_keys(self.position, self.mask, self.shape), excluded)]

    def split(self) -> tuple["Labels", "Labels"]:
        """Return the labels for training and the held-out ones; a position's key decides, so every run splits alike."""
        held_out = self.held_out()
        return self[~held_out], self[held_out]

    def held_out(self) -> NDArray[np.bool_]:
        """Return which positions (N,) are held out from training."""
        return np.asarray(_hash(position_keys(self.position, self.mask, self.shape)) % np.uint64(HELD_OUT) == 0)


def record_type(columns: int) -> np.dtype[np.void]:
    """Return the NumPy type of a record."""
    return np.dtype([("key", "<u8"), ("scores", "i1", (columns,)), ("source", "u1")])


def position_keys(position: Bits, mask: Bits, shape: Shape) -> NDArray[np.uint64]:
    """Return the key of each position as it is; `canonical_keys` takes the smaller key of it and its mirror image.

    >>> from regard.connectx import Board
    >>> board = Board.from_moves("44")
    >>> keys = position_keys(np.array([board.position]), np.array([board.mask]), board.shape)
    >>> [int(bits[0]) for bits in bits_from_keys(keys, board.shape)] == [board.position, board.mask]
    True
    """
    return position.view(np.uint64) + mask.view(np.uint64) + np.uint64(shape.bottom)


def canonical_keys(position: Bits, mask: Bits, shape: Shape) -> NDArray[np.uint64]:
    """Return the smaller key of each position and its mirror image."""
    mirrored = position_keys(mirror(position, shape), mirror(mask, shape), shape)
    return np.minimum(position_keys(position, mask, shape), mirrored)


def bits_from_keys(keys: NDArray[np.uint64], shape: Shape) -> tuple[Bits, Bits]:
    """Return position and mask of each key."""
    position, mask = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint64)
    for column in range(shape.columns):
        shift = np.uint64(column * shape.stride)
        bits = (keys >> shift) & np.uint64((1 << shape.stride) - 1)
        top = np.uint64(1) << (np.frexp(bits.astype(np.float64))[1] - 1).astype(np.uint64)
        position |= (bits - top) << shift
        mask |= (top - np.uint64(1)) << shift
    return position.view(np.int64), mask.view(np.int64)


def make_records(position: Bits, mask: Bits, scores: NDArray[np.int8], source: int, shape: Shape) -> Records:
    """Return records of these positions, each mirrored if its mirror image has the smaller key."""
    keys = canonical_keys(position, mask, shape)
    is_mirrored = keys != position_keys(position, mask, shape)
    records = np.zeros(len(keys), record_type(shape.columns))
    records["key"] = keys
    records["scores"] = np.where(is_mirrored[:, None], scores[:, ::-1], scores)
    records["source"] = source
    return records


def write_shard(folder: Path, number: int, records: Records) -> int:
    """Write records as a new shard file with this number, or the next free one, and return the number."""
    while not create_shard(folder, number, records):
        number += 1
    return number


def create_shard(folder: Path, number: int, records: Records) -> bool:
    """Write records as a new shard file; return False if another command has used this number."""
    final = shard_file(folder, number)
    if final.exists():
        return False
    part = folder / f".{number:09d}.{secrets.token_hex(8)}.npy"
    try:
        write_array(part, records)
        os.link(part, final)  # unlike a rename, this fails if the file exists
    except FileExistsError:
        return False
    finally:
        part.unlink(missing_ok=True)
    return True


def shard_file(folder: Path, number: int) -> Path:
    """Return the path of the shard with this number."""
    return folder / f"{number:09d}.npy"


def shards(folder: Path) -> list[Path]:
    """Return the shard files of a folder, oldest first."""
    return sorted(folder.glob("[0-9]*.npy"))


def open_folder(folder: str | os.PathLike[str], size: tuple[int, int, int] | None = None) -> tuple[Path, Shape]:
    """Return the folder and the shape of its boards; if it has no labels yet, create it for this board size."""
    path = Path(folder)
    header = path / "labels.json"
    if not header.exists():
        if size is None:
            raise ValueError(f"{path} contains no labels; make some with: regard connectx label {path}")
        shape = checked_shape(*size)
        path.mkdir(parents=True, exist_ok=True)
        write_json(header, {"format": 1, "size": list(size)})
        return path, shape
    explanation = header, "written by regard connectx label", "use another folder"
    with explain_damage(*explanation):
        content = read_json(*explanation, "format", "size")
        if content["format"] != 1:
            raise ValueError(f"expected format 1, got {content['format']!r}")
        rows, columns, inarow = content["size"]
        if any(type(value) is not int for value in content["size"]):
            raise ValueError(f"expected whole numbers, got the size {content['size']}")
        if inarow > max(rows, columns):
            raise ValueError(f"{inarow} in a row do not fit on a board of {rows}x{columns}")
        shape = checked_shape(rows, columns, inarow)
    if size is not None and size != (rows, columns, inarow):
        raise ValueError(
            f"{path} contains labels of {rows}x{columns}x{inarow}, but the size given is {'x'.join(map(str, size))}"
        )
    return path, shape


def read_labels(folder: str | os.PathLike[str], *, most: int | None = None) -> Labels:
    """Return all labels of a folder, or those of its first `most` shards, each position once.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.connectx import LabelOptions, label
    >>> with TemporaryDirectory() as folder:
    ...     count = label(folder, LabelOptions((4, 4, 3), fewest=4), positions=10, table_bits=16)
    ...     0 < len(read_labels(folder)) <= count
    True
    """
    path, shape = open_folder(folder)
    expected = record_type(shape.columns)
    parts = [np.zeros(0, expected)]
    for shard in shards(path)[:most]:
        with explain_damage(shard, f"a file of labels with {shape.columns} columns", "remove it"):
            parts.append(read_array(shard))
            if parts[-1].dtype != expected or parts[-1].ndim != 1:
                raise ValueError(f"expected records of {expected}, got {parts[-1].dtype}")
            _check_records(parts[-1], shape)
    records = np.concatenate(parts)
    _, first = np.unique(records["key"], return_index=True)
    records = records[first]
    position, mask = bits_from_keys(np.ascontiguousarray(records["key"]), shape)
    return Labels(shape, position, mask, np.ascontiguousarray(records["scores"]), records["source"].copy())


def _check_records(records: Records, shape: Shape) -> None:
    """Raise an error if a record has a key that is no position of the game, or scores or a source out of range."""
    keys = np.ascontiguousarray(records["key"])
    position, mask = bits_from_keys(keys, shape)
    cells = sum((1 << shape.rows) - 1 << column * shape.stride for column in range(shape.columns))
    top = np.array([1 << column * shape.stride + shape.rows - 1 for column in range(shape.columns)])
    full = (mask[:, None] & top) != 0
    scores = records["scores"]
    limit = (shape.rows * shape.columns + 1) // 2
    valid = (
        (position_keys(position, mask, shape) == keys)
        & ((mask & ~np.int64(cells)) == 0)
        & (np.bitwise_count(position) == np.bitwise_count(mask) // 2)
        & ((scores == FULL) == full).all(1)
        & ((np.abs(scores.astype(np.int64)) <= limit) | full).all(1)
        & (records["source"] < len(SOURCES))
    )
    if not valid.all():
        raise ValueError(f"record {int(np.argmin(valid))} is no position with its scores")


def _hash(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each key (the last step of splitmix64)."""
    bits = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
