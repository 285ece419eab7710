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

from regard.connectx.solver.position_index import MAX_STONES, layer_size
from regard.files import explain_damage, json_checksum, parse_json, verify_json

KIND = "regard connectx book 1"
SHIPPED = "6x7x4.book"


@dataclass(frozen=True)
class Book:
    """Scores by number of stones, for the start of games on boards of one size.

    rows, columns, inarow   size of the boards, and stones in a line that win
    layers                  by number of stones, a byte for each position: 0 unknown, else the score of the side to move
                            plus 128
    whole                   numbers of stones whose layers are complete; positions with fewer stones than the last of
                            them are scored without long search

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
        header = {
            "kind": KIND, "rows": self.rows, "columns": self.columns, "inarow": self.inarow,
            "layers": [[stones, layer.size] for stones, layer in layers], "whole": list(self.whole),
        }  # fmt: skip
        header["checksum"] = json_checksum(header)  # the compressed layers contain their own
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
        header = verify_json(parse_json(line))
        if header["kind"] != KIND:
            raise ValueError(f"expected a file of kind {KIND!r}, got {header['kind']!r}")
        rows, columns, inarow = header["rows"], header["columns"], header["inarow"]
        sizes: dict[int, int] = dict(header["layers"])
        whole = tuple(header.get("whole", []))
        _check_header(rows, columns, inarow, sizes, whole)
        unpacker = lzma.LZMADecompressor(memlimit=1 << 28)
        expected = sum(sizes.values())
        raw = np.frombuffer(unpacker.decompress(packed, expected + 1), dtype=np.uint8)
        if raw.size != expected or not unpacker.eof or unpacker.unused_data:
            raise ValueError(f"expected {expected} compressed scores, got {raw.size} or more data")
    ends = np.cumsum(list(sizes.values()))
    layers = {stones: raw[end - size : end] for (stones, size), end in zip(sizes.items(), ends, strict=True)}
    return Book(rows, columns, inarow, layers, whole)


def _check_header(rows: int, columns: int, inarow: int, sizes: dict[int, int], whole: tuple[int, ...]) -> None:
    """Raise an error unless these are whole numbers, the layers have the sizes that the board requires, and `whole` are
    some of them."""
    if any(type(value) is not int for value in (rows, columns, inarow, *sizes, *sizes.values(), *whole)):
        raise ValueError("expected whole numbers in the first line")
    if not (rows > 0 and columns > 0 and (rows + 1) * columns <= 64 and 0 < inarow <= max(rows, columns)):
        raise ValueError(f"expected a board of at most 64 cells, got {rows}x{columns}x{inarow}")
    for stones, size in sizes.items():
        if not 0 <= stones <= min(MAX_STONES, rows * columns) or size != layer_size(rows, columns, stones):
            raise ValueError(f"a layer of {stones} stones on {rows}x{columns} has another size than {size}")
    if not set(whole) <= set(sizes):
        raise ValueError(f"expected complete layers among {list(sizes)}, got {list(whole)}")
