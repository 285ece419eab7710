"""The opening book: exact scores of the positions with a given number of stones, in a small file.

A book has layers. A layer is an array with a place for every way to set that many stones (`threats.rank`), so it needs
no keys: a byte is the score plus 128, or 0 where it is not known. The search looks into the layer when it gets there;
what the book does not know is searched on. So a book may be of any depth, and a part of a layer is as good as it goes.

The file is a line of JSON and then the layers, compressed. Of mirror images only one is filled in.
"""

import json
import lzma
import os
from dataclasses import dataclass, field
from importlib.resources import files
from math import comb
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

KIND = "regard connectx book 1"
SHIPPED = "6x7x4.book"


@dataclass(frozen=True)
class Book:
    """Scores by number of stones, for boards of one size.

    `layers[n]` has a byte for each position with `n` stones: 0 unknown, else the score of the side to move plus 128.
    `whole` names the layers in which nothing is missing: with fewer stones than the last of these no search is long.
    """

    rows: int
    columns: int
    inarow: int
    layers: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    whole: tuple[int, ...] = ()

    @property
    def known(self) -> dict[int, int]:
        """How many positions are known, by number of stones."""
        return {stones: int(np.count_nonzero(layer)) for stones, layer in sorted(self.layers.items())}

    def save(self, path: str | Path) -> int:
        """Write the book; returns the bytes written."""
        layers = sorted(self.layers.items())
        header = {"kind": KIND, "rows": self.rows, "columns": self.columns, "inarow": self.inarow}
        header["layers"] = [[stones, layer.size] for stones, layer in layers]
        header["whole"] = list(self.whole)
        packed = lzma.compress(b"".join(layer.tobytes() for _, layer in layers), preset=9)
        data = json.dumps(header).encode() + b"\n" + packed
        part = Path(f"{path}.part{os.getpid()}")
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
        return len(data)


def load_book(path: str | Path | None = None) -> Book:
    """The book in a file; the shipped one if no file is named.

    >>> load_book().columns
    7
    """
    source = Path(str(files("regard.connectx") / "books" / SHIPPED)) if path is None else Path(path)
    data = source.read_bytes()
    line, _, packed = data.partition(b"\n")
    try:
        header = json.loads(line)
        if header["kind"] != KIND:
            raise KeyError(KIND)
        sizes = [(int(stones), int(size)) for stones, size in header["layers"]]
        raw = np.frombuffer(lzma.decompress(packed), dtype=np.uint8)
        if raw.size != sum(size for _, size in sizes):
            raise ValueError(f"{raw.size} scores")
        whole = tuple(int(stones) for stones in header.get("whole", []))
        rows, columns, inarow = int(header["rows"]), int(header["columns"]), int(header["inarow"])
    except (ValueError, KeyError, TypeError, lzma.LZMAError) as error:
        raise ValueError(
            f"{source} is no opening book, or a damaged one ({error}); write one with `regard connectx book`"
        ) from None
    ends = np.cumsum([size for _, size in sizes])
    layers = {stones: raw[end - size : end] for (stones, size), end in zip(sizes, ends, strict=True)}
    return Book(rows, columns, inarow, layers, whole)


def ranking(rows: int, columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tables `ways` and `choose` with which `threats.rank` numbers positions."""
    cells = rows * columns
    ways = np.zeros((columns + 1, cells + 1), dtype=np.int64)
    ways[0, 0] = 1
    for i in range(1, columns + 1):
        for total in range(cells + 1):
            ways[i, total] = ways[i - 1, max(0, total - rows) : total + 1].sum()
    most = min(cells, 24)  # deeper layers would not fit into memory
    choose = np.array([[comb(i, k) for k in range(most + 1)] for i in range(most + 1)], dtype=np.int64)
    return ways, choose


def layer_size(rows: int, columns: int, stones: int) -> int:
    """How many places a layer has."""
    ways, choose = ranking(rows, columns)
    return int(ways[columns, stones] * choose[stones, stones // 2])
