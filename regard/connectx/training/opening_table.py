"""A network learns by heart what openings are worth: the table of its memory (`regard.models`, opening_table.py).

Every position with few stones that is not settled at a glance is taken, with its exact value, but for those that
networks are graded by. What the network says of it without a memory, as it stands and mirrored, is computed once; what
is missing to the value is then learnt in a few passes:

    for each number that a position touches     g = tanh(said + Σ numbers) − value
                                                number −= rate · g / √(sum of all g² of this number so far)

The network's other weights stay as they are, and so does its policy. A number of stones gets a share of each pass that
grows with the square root of how many such positions there are.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard import models
from regard.compiled import compiled
from regard.connectx.data.batch_values import Report, batches, network_values
from regard.connectx.data.labels import Labels, bits_from_keys, canonical_keys
from regard.connectx.data.opening_labels import MAX_STONES
from regard.connectx.game.board_batch import checked_shape, planes_of
from regard.connectx.solver.build_book import positions_to_solve
from regard.connectx.solver.solver import Solver
from regard.training.interrupts import stop_requested

Array = np.ndarray

START = 1e-2  # what the sum of squares begins with: the first steps are not too long
RATE = 0.3


@dataclass(frozen=True)
class Memorized:
    """The network with its memory, and the mean squared error of its values before and after: of positions that it
    learnt, and of those held out (None where there are none)."""

    net: models.BoardNet
    learnt: int
    held_out: int
    before: tuple[float | None, float | None]
    after: tuple[float | None, float | None]


def memorize(
    net: models.BoardNet,
    solver: Solver,
    *,
    stones: int = 10,
    bits: int = 19,
    passes: int = 20,
    without: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    seed: int = 0,
    kept: str | os.PathLike[str] | None = None,
    processes: int = 1,
    report: Report = lambda what, done, total: None,
) -> Memorized:
    """The network with a memory of all positions with at most so many stones.

    without     positions and masks that are left out, as are their mirror images
    kept        a folder for what the network says of them, which takes longest: what is there is not computed again
    processes   that ask the network
    """
    if passes < 1:
        raise ValueError(f"passes must be at least 1, got {passes}")
    if net.config.planes != 2:
        raise ValueError(
            f"a memory goes with planes of own and the opponent's stones, this network has {net.config.planes}"
        )
    known = openings(solver, stones, report)
    if without is not None:
        known = known.without(*without)
    shape = known.shape
    size = (shape.rows, shape.columns, stones)
    bare, extended = models.with_opening_table(net).eval(), models.with_opening_table(net, size, bits).eval()
    said = network_values(bare, known, None if kept is None else Path(kept), processes=processes, report=report)
    places = _places(extended, known, report)
    value = known.scores[:, 0].astype(np.float32)
    held = known.held_out()
    learnt = ~held

    table, squares = np.zeros(1 << bits, np.float32), np.full(1 << bits, START, np.float32)

    def error(which: NDArray[np.bool_]) -> float | None:
        wrong = [(_values(places[which], table, said[which, side]) - value[which]) ** 2 for side in range(2)]
        return float(np.mean(wrong)) if which.any() else None

    before = error(learnt), error(held)
    chosen = _often(known, np.flatnonzero(learnt))
    for number in range(passes):
        random = np.random.default_rng([seed, number])
        side = random.integers(0, 2, len(known))
        heard = said[np.arange(len(known)), side]
        _pass(random.permutation(chosen), places, table, squares, heard, value, RATE * (1 - number / passes))
        report("learning", 1, passes)
    with torch.no_grad():
        assert extended.opening_table is not None
        extended.opening_table.table.copy_(torch.from_numpy(table))
    return Memorized(extended, int(learnt.sum()), int(held.sum()), before, (error(learnt), error(held)))


def openings(solver: Solver, stones: int, report: Report = lambda what, done, total: None) -> Labels:
    """Every position with at most so many stones that is not settled at a glance, with its value as the only score.

    >>> solver = Solver(4, 4, 3, table_bits=16)
    >>> known = openings(solver, 4)
    >>> len(known), known.scores.shape, np.unique(known.scores).tolist()
    (89, (89, 1), [-1, 1])
    """
    most = min(MAX_STONES, solver.rows * solver.columns - 1)
    if not 0 <= stones <= most:
        raise ValueError(f"stones must be 0 to {most}, got {stones}")
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


def _often(known: Labels, which: NDArray[np.int64]) -> NDArray[np.int64]:
    """These positions for one pass, those with few stones several times: they are few, and all others follow them."""
    stones = known.stones[which]
    count = np.bincount(stones)[stones]
    return np.repeat(which, np.sqrt(count.max() / count).astype(np.int64))


def _places(net: models.BoardNet, known: Labels, report: Report) -> NDArray[np.int32]:
    """(N, groups): which numbers of the table each position touches."""
    table = net.opening_table
    assert table is not None
    found = np.empty((len(known), len(table.groups)), np.int32)
    for part in batches(len(known)):
        planes = torch.from_numpy(planes_of(known.position[part], known.mask[part], known.shape)).float()
        found[part] = table.indices(planes).numpy()
        report("looking up", part.stop - part.start, len(known))
    return found


@compiled
def _pass(order: Array, places: Array, table: Array, squares: Array, said: Array, value: Array, rate: float) -> None:
    for at in order:
        total = said[at]
        for place in places[at]:
            total += table[place]
        gradient = np.tanh(total) - value[at]
        for place in places[at]:
            squares[place] += gradient * gradient
            table[place] -= rate * gradient / np.sqrt(squares[place])


@compiled
def _values(places: Array, table: Array, said: Array) -> Array:
    found = np.empty(len(said), np.float32)
    for at in range(len(said)):
        total = said[at]
        for place in places[at]:
            total += table[place]
        found[at] = np.tanh(total)
    return found
