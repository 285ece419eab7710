"""Label every position with few stones. A book with one more stone makes this possible without search.

The random games of `label_positions.py` reach a few openings very often and most openings hardly ever.
"""

import os
import time
from collections.abc import Callable

import numpy as np

from regard.connectx.data.label_positions import SAVE_EVERY, label_boards
from regard.connectx.data.label_storage import Records, canonical_keys, open_folder, read_labels, shards, write_shard
from regard.connectx.solver.build_book import positions_with
from regard.connectx.solver.perfect_solver import Solver
from regard.training.interrupts import stop_requested

BATCH = 64
MAX_STONES = 12  # four million positions


def label_openings(
    folder: str | os.PathLike[str], stones: int, solver: Solver, *,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> int:  # fmt: skip
    """Label every position with at most this many stones that the folder does not contain yet; return their number.

    `report(count, total)` is called after every batch. After Ctrl-C the finished labels are saved.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     label_openings(folder, 2, Solver(4, 4, 3, table_bits=16))
    11
    """
    size = (solver.rows, solver.columns, solver.inarow)
    most = min(MAX_STONES, solver.rows * solver.columns - 1)
    if not 0 <= stones <= most:
        raise ValueError(f"stones must be 0 to {most}, got {stones}")
    path, shape = open_folder(folder, size)
    layers = [positions_with(n, *size) for n in range(stones + 1)]
    position, mask = (np.concatenate(parts) for parts in zip(*layers, strict=True))
    labels = read_labels(path)
    labelled = canonical_keys(labels.position, labels.mask, shape)
    new = ~np.isin(canonical_keys(position, mask, shape), labelled)
    position, mask = position[new], mask[new]
    number = int(shards(path)[-1].stem) + 1 if shards(path) else 0
    unsaved: list[Records] = []
    saved = time.monotonic()
    with stop_requested() as stop:
        try:
            for first in range(0, len(mask), BATCH):
                part = slice(first, first + BATCH)
                if stop.is_set():
                    raise KeyboardInterrupt
                unsaved.append(label_boards(solver, position[part], mask[part], 0, shape))
                report(len(unsaved[-1]), len(mask))
                if time.monotonic() - saved > SAVE_EVERY:
                    write_shard(path, number, np.concatenate(unsaved))
                    unsaved, saved = [], time.monotonic()
        finally:
            if unsaved:
                write_shard(path, number, np.concatenate(unsaved))
    return len(mask)
