"""The opening table of a network: corrections to its value in positions with few stones.

Every position with few stones is solved, except those that the search decides immediately and those held out for
evaluation. The network's raw value for each position, and for its mirror image, is computed once; several passes then
learn the difference to the exact value. `regard/models/board/opening_table.py` describes which entries a position uses.

    for each entry that a position uses         g = tanh(raw value + Σ entries) − exact value
                                                entry −= rate · g / √(sum of all g² of this entry so far)

The table has an effect on the learnt positions only (`regard/models/board/taught_positions.py`): on others, such as the
held-out ones, its values would be wrong more often than those of the network.

The other weights of the network and its policy do not change. Each number of stones gets a share of a pass proportional
to the square root of the number of such positions.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard import models
from regard.connectx.data.label_openings import MAX_STONES
from regard.connectx.data.label_storage import Labels, bits_from_keys, canonical_keys
from regard.connectx.data.network_values import Report, batches, network_values
from regard.connectx.game.board_batch import checked_shape, planes_of
from regard.connectx.solver.build_book import positions_to_solve, positions_with
from regard.connectx.solver.perfect_solver import Solver
from regard.models.board.taught_positions import build_set, column_codes, position_keys
from regard.numba_functions import compiled
from regard.parallel import Engine
from regard.training.interrupts import stop_requested

Array = np.ndarray

INITIAL_SQUARES = 1e-2  # initial sum of squares, which limits the length of the first steps
RATE = 0.3


@dataclass(frozen=True)
class Memorized:
    """A network with its opening table, and the mean squared error of its values before and after the table was learnt.

    `learnt` and `held_out` are numbers of positions. `before` and `after` are pairs: the error on the learnt positions
    and on the held-out ones (None if there are none).
    """

    net: models.BoardNet
    learnt: int
    held_out: int
    before: tuple[float | None, float | None]
    after: tuple[float | None, float | None]


def memorize(
    net: models.BoardNet, solver: Solver, *, stones: int = 10, bits: int = 19, passes: int = 20,
    without: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None, seed: int = 0,
    folder: str | os.PathLike[str] | None = None, processes: int = 1, engine: Engine | None = None,
    report: Report = lambda what, done, total: None,
) -> Memorized:  # fmt: skip
    """Return the network with an opening table for all positions with at most `stones` stones.

    Args:
        net: the network; it is not changed.
        solver: gives the exact values.
        stones: maximum number of stones of the positions in the table.
        bits: the table has 2^bits entries.
        passes: passes over all positions.
        without: positions and masks to leave out, together with their mirror images.
        seed: seed of the order of the positions.
        folder: stores the network's raw values, so that a stopped run does not compute them again.
        processes: processes that compute the raw values.
        engine: computes them instead of processes of this machine.
        report: called as report(stage, number done since the last call, total).

    >>> from regard.connectx import Solver
    >>> net = models.BoardNet("tiny", channels=8, heads=2, layers=2, attn_every=1)
    >>> result = memorize(net, Solver(4, 4, 3, table_bits=16), stones=4, bits=10, passes=5)
    >>> result.after[0] < result.before[0]
    True
    """
    if passes < 1:
        raise ValueError(f"passes must be at least 1, got {passes}")
    if net.config.planes != 2:
        raise ValueError(f"an opening table needs a network with 2 input planes, got {net.config.planes}")
    labels = solved_openings(solver, stones, report)
    if without is not None:
        labels = labels.without(*without)
    size = (labels.shape.rows, labels.shape.columns, stones)
    held = labels.held_out()
    learnt = ~held
    taught = torch.from_numpy(taught_set(labels[learnt], stones, (*size[:2], solver.inarow)))
    bare, extended = models.with_opening_table(net).eval(), models.with_opening_table(net, size, bits, taught).eval()
    path = None if folder is None else Path(folder)
    raw = network_values(bare, labels, path, processes=processes, engine=engine, report=report)
    entries = _entries(extended, labels, report)
    value = labels.scores[:, 0].astype(np.float32)

    table, squares = np.zeros(1 << bits, np.float32), np.full(1 << bits, INITIAL_SQUARES, np.float32)

    def error(which: NDArray[np.bool_]) -> float | None:
        corrections = table * np.float32(which is learnt)  # the table has no effect on held-out positions
        errors = [(_corrected(entries[which], corrections, raw[which, side]) - value[which]) ** 2 for side in range(2)]
        return float(np.mean(errors)) if which.any() else None

    before = error(learnt), error(held)
    stones_learnt = labels.stones[learnt]
    count = np.bincount(stones_learnt)[stones_learnt]
    # In a pass, positions with rare numbers of stones are repeated.
    indices = np.repeat(np.flatnonzero(learnt), np.sqrt(count.max() / count).astype(np.int64))
    for number in range(passes):
        random = np.random.default_rng([seed, number])
        side = random.integers(0, 2, len(labels))
        values = raw[np.arange(len(labels)), side]
        _pass(random.permutation(indices), entries, table, squares, values, value, RATE * (1 - number / passes))
        report("learning", 1, passes)
    with torch.no_grad():
        assert extended.opening_table is not None
        extended.opening_table.table.copy_(torch.from_numpy(table))
    return Memorized(extended, int(learnt.sum()), int(held.sum()), before, (error(learnt), error(held)))


def solved_openings(solver: Solver, stones: int, report: Report = lambda what, done, total: None) -> Labels:
    """Return every position with at most `stones` stones that needs a search, with its value as the only score.

    >>> solver = Solver(4, 4, 3, table_bits=16)
    >>> labels = solved_openings(solver, 4)
    >>> len(labels), labels.scores.shape, np.unique(labels.scores).tolist()
    (89, (89, 1), [-1, 1])
    """
    most = min(MAX_STONES, solver.rows * solver.columns - 1)
    if not 0 <= stones <= most:
        raise ValueError(f"stones must be between 0 and {most}, got {stones}")
    size = (solver.rows, solver.columns, solver.inarow)
    shape = checked_shape(*size)
    layers = [positions_to_solve(n, *size) for n in range(stones + 1)]
    position, mask = (np.concatenate(parts).view(np.int64) for parts in zip(*layers, strict=True))
    position, mask = bits_from_keys(np.sort(canonical_keys(position, mask, shape)), shape)
    values = np.zeros((len(mask), 1), np.int8)
    with stop_requested() as stop:
        for part in batches(len(mask)):
            if stop.is_set():
                raise KeyboardInterrupt
            scores = [solver.score(int(p), int(m)) for p, m in zip(position[part], mask[part], strict=True)]
            values[part, 0] = np.sign(scores)
            report("solving", len(scores), len(mask))
    return Labels(shape, position, mask, values, np.zeros(len(mask), np.uint8))


def taught_set(taught: Labels, stones: int, size: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return the set of these positions among all positions of this board size with at most `stones` stones."""
    layers = [positions_with(n, *size) for n in range(stones + 1)]
    position, mask = (np.concatenate(parts) for parts in zip(*layers, strict=True))
    keys = canonical_keys(taught.position, taught.mask, taught.shape)
    is_taught = np.isin(canonical_keys(position, mask, taught.shape), keys)
    # The numbers of both kinds of keys differ: these are computed from planes, as in the network.
    parts = [planes_of(position[part], mask[part], taught.shape) for part in batches(len(mask))]
    columns = np.concatenate([column_codes(planes) for planes in parts])
    return build_set(np.asarray(position_keys(columns, size[0] + 1)), is_taught)


def _entries(net: models.BoardNet, labels: Labels, report: Report) -> NDArray[np.int32]:
    """Return the indices (N, groups) of the table entries that each position uses."""
    table = net.opening_table
    assert table is not None
    entries = np.empty((len(labels), len(table.groups)), np.int32)
    for part in batches(len(labels)):
        planes = torch.from_numpy(planes_of(labels.position[part], labels.mask[part], labels.shape)).float()
        entries[part] = table.indices(planes).numpy()
        report("looking up", part.stop - part.start, len(labels))
    return entries


@compiled
def _pass(order: Array, entries: Array, table: Array, squares: Array, raw: Array, value: Array, rate: float) -> None:
    for at in order:
        total = raw[at]
        for entry in entries[at]:
            total += table[entry]
        gradient = np.tanh(total) - value[at]
        for entry in entries[at]:
            squares[entry] += gradient * gradient
            table[entry] -= rate * gradient / np.sqrt(squares[entry])


@compiled
def _corrected(entries: Array, table: Array, raw: Array) -> Array:
    values = np.empty(len(raw), np.float32)
    for at in range(len(raw)):
        total = raw[at]
        for entry in entries[at]:
            total += table[entry]
        values[at] = np.tanh(total)
    return values
