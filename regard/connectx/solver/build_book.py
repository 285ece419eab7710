"""Making the opening book: solve every position with a given number of stones, in several threads, resumably.

All positions of a layer are found by playing forward from the empty board. Those that the search settles at a glance
(an immediate win, or none to be prevented) are left out. The others are solved in the order of the game tree: what one
takes to solve is then mostly known from those just before it. The threads share one table for that, without locks: an
entry is a single word that says something true. What is known is kept in a folder and taken up again next time.
"""

# mypy: disable-error-code="no-untyped-call"
# (numba infers the types of the compiled functions)

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread

import numpy as np
from numpy.typing import NDArray

from regard.compiled import compiled
from regard.connectx.solver.opening_book import Book, layer_size, ranking
from regard.connectx.solver.solver import Solver
from regard.connectx.solver.threats import ONE, ZERO, in_line, mirror, popcount, rank, threats

U = np.uint64
Positions = NDArray[np.uint64]


@dataclass(frozen=True)
class Progress:
    """How far a layer is: positions known, positions in all, and how many were known at the start."""

    known: int
    total: int
    at_start: int


@compiled
def _next_layer(positions, masks, stones, rows, columns, inarow, seen, ways, choose):  # type: ignore[no-untyped-def]
    """All positions one stone later, each once, of mirror images the one with the smaller key."""
    stride = rows + 1
    out_p = np.empty(seen.size, dtype=np.uint64)
    out_m = np.empty(seen.size, dtype=np.uint64)
    count = 0
    for i in range(positions.size):
        p, m = positions[i], masks[i]
        for column in range(columns):
            cell = (m + (ONE << U(column * stride))) & (U((1 << rows) - 1) << U(column * stride))
            if cell == ZERO or in_line(p | cell, stride, inarow):
                continue
            p2, m2 = p ^ m, m | cell
            if mirror(p2 + m2, stride, columns) < p2 + m2:
                p2, m2 = mirror(p2, stride, columns), mirror(m2, stride, columns)
            place = rank(p2, m2, stones + 1, stride, columns, ways, choose)
            if not seen[place]:
                seen[place] = True
                out_p[count], out_m[count] = p2, m2
                count += 1
    return out_p[:count].copy(), out_m[:count].copy()


@compiled
def _unsettled(positions, masks, rows, columns, inarow):  # type: ignore[no-untyped-def]
    """Which positions the search does not settle at a glance."""
    stride = rows + 1
    bottom = ZERO
    for column in range(columns):
        bottom |= ONE << U(column * stride)
    board = bottom * U((1 << rows) - 1)
    out = np.zeros(positions.size, dtype=np.bool_)
    for i in range(positions.size):
        p, m = positions[i], masks[i]
        playable = (m + bottom) & board
        if playable & threats(p, stride, inarow):
            continue
        against = threats(p ^ m, stride, inarow) & board & ~m
        forced = playable & against
        if popcount(forced) > ONE:
            continue
        out[i] = ((forced if forced else playable) & ~(against >> ONE)) != ZERO
    return out


def positions_with(stones: int, rows: int = 6, columns: int = 7, inarow: int = 4) -> tuple[Positions, Positions]:
    """Every position of unfinished games with this many stones, of mirror images one: (positions, masks).

    >>> [positions_with(stones)[0].size for stones in range(6)]
    [1, 4, 25, 121, 568, 2144]
    """
    ways, choose = ranking(rows, columns)
    positions = masks = np.zeros(1, dtype=np.uint64)
    for n in range(stones):
        seen = np.zeros(layer_size(rows, columns, n + 1), dtype=np.bool_)
        positions, masks = _next_layer(positions, masks, n, rows, columns, inarow, seen, ways, choose)
    return positions, masks


def to_solve(stones: int, rows: int, columns: int, inarow: int) -> tuple[Positions, Positions, NDArray[np.int64]]:
    """What a layer must know, in the order of the game tree: positions, masks and their places in the layer."""
    positions, masks = positions_with(stones, rows, columns, inarow)
    wanted = _unsettled(positions, masks, rows, columns, inarow)
    positions, masks = positions[wanted], masks[wanted]
    ways, choose = ranking(rows, columns)
    return positions, masks, _places(positions, masks, stones, rows + 1, columns, ways, choose)


@compiled
def _places(positions, masks, stones, stride, columns, ways, choose):  # type: ignore[no-untyped-def]
    out = np.empty(positions.size, dtype=np.int64)
    for i in range(positions.size):
        out[i] = rank(positions[i], masks[i], stones, stride, columns, ways, choose)
    return out


def solver_with(book: Book, table_bits: int) -> Solver:
    """A solver that makes layers of a book; what the book knows already helps."""
    return Solver(book.rows, book.columns, book.inarow, book=book, table_bits=table_bits)


def make_layer(
    folder: str | Path,
    stones: int,
    *,
    rows: int = 6,
    columns: int = 7,
    inarow: int = 4,
    threads: int = 1,
    table_bits: int = 24,
    seconds: float | None = None,
    report: Callable[[Progress], None] | None = None,
    solver: Solver | None = None,
) -> Progress:
    """Solve a layer of the book, or go on with it, and keep what is known in the folder.

    It may be interrupted at any time (or stops after so many seconds): what is solved is saved every minute and at
    the end. A solver that has made the layer before knows much of what this one takes; without it a new one begins.
    """
    book = kept(folder, rows, columns, inarow)
    layer = book.layers.get(stones)
    if layer is None:
        layer = np.zeros(layer_size(rows, columns, stones), dtype=np.uint8)
    layer = layer.copy()
    positions, masks, places = to_solve(stones, rows, columns, inarow)
    open_ = layer[places] == 0
    start = int((~open_).sum())
    progress = Progress(start, places.size, start)
    positions, masks, places = positions[open_], masks[open_], places[open_]
    file = _file(folder, rows, columns, inarow, stones)
    began = saved = time.monotonic()
    if report:
        report(progress)
    if not places.size:
        return progress
    solver = solver or solver_with(book, table_bits)
    solver.get_ready()
    chunk = max(1, min(32, progress.total // 2000))  # of a small layer every position is a long search
    parts = iter([slice(first, first + chunk) for first in range(0, places.size, chunk)])
    found: Found = SimpleQueue()
    stop = Event()
    for mine in [solver, *(solver.beside() for _ in range(threads - 1))]:
        # A daemon, so that nothing has to wait for a long search when the program ends.
        Thread(target=_work, args=(mine, parts, positions, masks, found, stop), daemon=True).start()
    known = start
    try:
        while known < progress.total:
            now = time.monotonic()
            if seconds is not None and now > began + seconds:
                break
            if now > saved + 60:
                _save(file, layer)
                saved = now
            try:
                one = found.get(timeout=1)
            except Empty:
                continue
            if isinstance(one, Exception):
                raise one
            layer[places[one[0]]] = one[1] + 128
            known += 1
            progress = Progress(known, progress.total, start)
            if report:
                report(progress)
    finally:
        stop.set()
        _save(file, layer)
    return progress


Found = SimpleQueue[tuple[int, int] | Exception]


def _work(
    solver: Solver, parts: Iterator[slice], positions: Positions, masks: Positions, found: Found, stop: Event
) -> None:
    """Solve parts of the layer until there are none left; the threads draw them from one iterator."""
    try:
        guess = None  # the score before: neighbours in the tree are often worth as much
        for part in parts:
            for i in range(*part.indices(positions.size)):
                if stop.is_set():
                    return
                guess = solver.score(int(positions[i]), int(masks[i]), guess=guess)
                found.put((i, guess))
    except Exception as error:
        found.put(error)


def kept(folder: str | Path, rows: int, columns: int, inarow: int) -> Book:
    """The book as far as it is known in a folder."""
    book = Book(rows, columns, inarow)
    for stones in range(rows * columns):
        file = _file(folder, rows, columns, inarow, stones)
        if file.exists():
            layer = np.load(file, allow_pickle=False)
            size = layer_size(rows, columns, stones)
            if layer.dtype != np.uint8 or layer.shape != (size,):
                raise ValueError(f"{file} should hold {size} bytes, got {layer.shape} of {layer.dtype}; remove it")
            book.layers[stones] = layer
    return book


def whole_layers(book: Book) -> tuple[int, ...]:
    """The layers of a book that know every position which the search would not settle at a glance."""
    size = (book.rows, book.columns, book.inarow)
    return tuple(n for n, count in book.known.items() if count == to_solve(n, *size)[0].size)


def _file(folder: str | Path, rows: int, columns: int, inarow: int, stones: int) -> Path:
    return Path(folder) / f"{rows}x{columns}x{inarow}-{stones}.npy"


def _save(file: Path, layer: NDArray[np.uint8]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".part{os.getpid()}.npy")
    np.save(part, layer)
    part.replace(file)
