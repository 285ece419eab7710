"""Labels of every position with few stones: with a book that is a stone deeper this takes no search.

Drawn games (labelling.py) meet the same few openings again and again, and the rest of them hardly ever.
"""

import os
import time
from collections.abc import Callable, Iterator

import numpy as np

from regard.connectx.data.labelling import SAVE_EVERY, label_boards
from regard.connectx.data.labels import (
    Bits,
    Records,
    keys_of,
    mirrored_bits,
    open_folder,
    read_labels,
    shards,
    write_shard,
)
from regard.connectx.solver.build_book import positions_with
from regard.connectx.solver.solver import Solver
from regard.training.interrupts import stop_requested

AT_ONCE = 64
MOST = 12  # stones: four million positions


def label_openings(
    folder: str | os.PathLike[str],
    stones: int,
    solver: Solver,
    *,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Label every position with at most so many stones that the folder does not hold; how many these were.

    `report` hears of every batch, and how many there are in all. Interrupted (Ctrl-C), what is labelled is kept.
    """
    size = (solver.rows, solver.columns, solver.inarow)
    most = min(MOST, solver.rows * solver.columns - 1)
    if not 0 <= stones <= most:
        raise ValueError(f"openings must be 0 to {most} stones, got {stones}")
    path, shape = open_folder(folder, size)
    position, mask = _missing(path, stones)
    number = int(shards(path)[-1].stem) + 1 if shards(path) else 0
    waiting: list[Records] = []
    saved = time.monotonic()
    with stop_requested() as stop:
        try:
            for part in _parts(len(mask)):
                if stop.is_set():
                    raise KeyboardInterrupt
                waiting.append(label_boards(solver, position[part], mask[part], 0, shape))
                report(len(waiting[-1]), len(mask))
                if time.monotonic() - saved > SAVE_EVERY:
                    write_shard(path, number, np.concatenate(waiting))
                    waiting, saved = [], time.monotonic()
        finally:
            if waiting:
                write_shard(path, number, np.concatenate(waiting))
    return len(mask)


def _missing(path: os.PathLike[str], stones: int) -> tuple[Bits, Bits]:
    """The positions that are not labelled yet, those with few stones first."""
    labels = read_labels(path)
    shape = labels.shape
    layers = [positions_with(n, shape.rows, shape.columns, shape.inarow) for n in range(stones + 1)]
    position, mask = (np.concatenate(parts).view(np.int64) for parts in zip(*layers, strict=True))
    keys = keys_of(position, mask, shape)
    keys = np.minimum(keys, keys_of(mirrored_bits(position, shape), mirrored_bits(mask, shape), shape))
    new = ~np.isin(keys, keys_of(labels.position, labels.mask, shape))
    return position[new], mask[new]


def _parts(count: int) -> Iterator[slice]:
    return (slice(first, first + AT_ONCE) for first in range(0, count, AT_ONCE))
