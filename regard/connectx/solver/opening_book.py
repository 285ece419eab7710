"""Opening book: exact scores of the positions with a given number of stones, in a small file.

A book has layers. A layer is an array with one byte for every position with that many stones (`position_index`): the
score plus 128, or 0 if it is not known. The search reads the layer when it reaches that many stones, and searches on
where the score is not known. So a book may have any depth, and an unfinished layer is useful too.

The file is a line of JSON followed by the compressed layers. A position and its mirror image share one byte.
"""

import json
import lzma
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.files import explain_damage

KIND = "regard connectx book 1"
SHIPPED = "6x7x4.book"


@dataclass(frozen=True)
class Book:
    """Scores by number of stones, for boards of one size.

    `layers[n]` has a byte for each position with `n` stones: 0 unknown, else the score of the side to move plus 128.
    `whole` lists the complete layers; positions with fewer stones than the last of them are scored without long search.

    >>> max(load_book().whole)
    10
    """

    rows: int
    columns: int
    inarow: int
    layers: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    whole: tuple[int, ...] = ()

    @property
    def known(self) -> dict[int, int]:
        """Number of known positions, by number of stones."""
        return {stones: int(np.count_nonzero(layer)) for stones, layer in sorted(self.layers.items())}

    def save(self, path: str | Path) -> int:
        """Write the book to a file and return its size in bytes."""
        from regard.files import write_atomic  # not at the top, because an exported player has no such module

        layers = sorted(self.layers.items())
        header = {"kind": KIND, "rows": self.rows, "columns": self.columns, "inarow": self.inarow}
        header["layers"] = [[stones, layer.size] for stones, layer in layers]
        header["whole"] = list(self.whole)
        packed = lzma.compress(b"".join(layer.tobytes() for _, layer in layers), preset=9)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return write_atomic(path, json.dumps(header).encode() + b"\n" + packed).stat().st_size


def load_book(path: str | Path | None = None) -> Book:
    """Return the book in a file; without a path, the one that comes with regard.

    >>> load_book().columns
    7
    """
    source = Path(str(files("regard.connectx") / "books" / SHIPPED)) if path is None else Path(path)
    data = source.read_bytes()
    line, _, packed = data.partition(b"\n")
    with explain_damage(source, "an opening book", "write one with `regard connectx book`"):
        header = json.loads(line)
        if header["kind"] != KIND:
            raise ValueError(f"expected a file of kind {KIND!r}, got {header['kind']!r}")
        sizes = [(int(stones), int(size)) for stones, size in header["layers"]]
        raw = np.frombuffer(lzma.decompress(packed), dtype=np.uint8)
        if raw.size != (expected := sum(size for _, size in sizes)):
            raise ValueError(f"expected {expected} scores, got {raw.size}")
        whole = tuple(int(stones) for stones in header.get("whole", []))
        rows, columns, inarow = int(header["rows"]), int(header["columns"]), int(header["inarow"])
    ends = np.cumsum([size for _, size in sizes])
    layers = {stones: raw[end - size : end] for (stones, size), end in zip(sizes, ends, strict=True)}
    return Book(rows, columns, inarow, layers, whole)
