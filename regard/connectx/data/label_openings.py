"""Label every position with few stones. A book with one more stone makes this possible without search.

The random games of `label_positions.py` reach a few openings very often and most openings hardly ever.
"""

import os
import time
from collections.abc import Callable

import numpy as np

from regard.connectx.data.label_positions import SAVE_EVERY, label_boards
from regard.connectx.data.label_storage import (
    Bits,
    Records,
    canonical_keys,
    open_folder,
    read_labels,
    shards,
    write_shard,
)
from regard.connectx.game.bitboard import Shape
from regard.connectx.solver.build_book import positions_with
from regard.connectx.solver.perfect_solver import Solver
from regard.parallel import Engine, Handle, Work, engine_or_local
from regard.training.interrupts import stop_requested

BATCH = 64
MAX_STONES = 12  # four million positions


def label_openings(
    folder: str | os.PathLike[str], stones: int, solver: Solver, *, engine: Engine | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> int:  # fmt: skip
    """Label every position with at most this many stones that the folder does not contain yet; return their number.

    folder      folder of labels
    stones      largest number of stones
    solver      solver of the board size
    engine      runs the solvers; by default one process, which uses `solver` itself; others make one like it
    report      called with the count so far and the total after every batch

    After Ctrl-C the finished labels are saved.

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
    tasks = ((position[at : at + BATCH], mask[at : at + BATCH]) for at in range(0, len(mask), BATCH))
    with (
        stop_requested() as stop,
        engine_or_local(engine) as engine,
        engine.start(_work(solver, shape, engine)) as pool,
    ):
        try:
            for _, records in pool.results(tasks, stop=stop):
                unsaved.append(records)
                report(len(records), len(mask))
                if time.monotonic() - saved > SAVE_EVERY:
                    write_shard(path, number, np.concatenate(unsaved))
                    unsaved, saved = [], time.monotonic()
        finally:
            if unsaved:
                write_shard(path, number, np.concatenate(unsaved))
    return len(mask)


def _work(solver: Solver, shape: Shape, engine: Engine) -> Work[tuple[Bits, Bits], Records]:
    return Work(_prepare, (engine.share(solver), shape), threads=None, in_advance=1)


def _prepare(solver: Handle, shape: Shape) -> Callable[[tuple[Bits, Bits]], Records]:
    return lambda task: label_boards(solver.value(), *task, 0, shape)
