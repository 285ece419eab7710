"""Making the opening book: solve every position with a given number of stones, in several processes, resumably.

All positions of a layer are found by playing forward from the empty board. Those that the search settles at a glance
(an immediate win, or none to be prevented) are left out. The others are solved likeliest first: by the number of move
orders that lead to the heights of their columns. What is known is kept in a folder and taken up again next time.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray

from .book import Book, layer_size, ranking
from .solver import Solver
from .threats import ONE, ZERO, in_line, mirror, popcount, rank, threats

U = np.uint64
Positions = NDArray[np.uint64]


@dataclass(frozen=True)
class Progress:
    """How far a layer is: positions known, positions in all, and how many were known at the start."""

    known: int
    total: int
    at_start: int


@numba.njit(cache=True)
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


@numba.njit(cache=True)
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
    """What a layer must know, likeliest first: positions, masks and their places in the layer."""
    positions, masks = positions_with(stones, rows, columns, inarow)
    wanted = _unsettled(positions, masks, rows, columns, inarow)
    positions, masks = positions[wanted], masks[wanted]
    ways, choose = ranking(rows, columns)
    places = _places(positions, masks, stones, rows + 1, columns, ways, choose)
    column = U((1 << rows) - 1)
    orders = np.full(masks.size, float(factorial(stones)))
    for i in range(columns):
        heights = np.bitwise_count((masks >> U(i * (rows + 1))) & column)
        orders /= np.array([float(factorial(h)) for h in range(rows + 1)])[heights]
    order = np.lexsort((places, -orders))
    return positions[order], masks[order], places[order]


@numba.njit(cache=True)
def _places(positions, masks, stones, stride, columns, ways, choose):  # type: ignore[no-untyped-def]
    out = np.empty(positions.size, dtype=np.int64)
    for i in range(positions.size):
        out[i] = rank(positions[i], masks[i], stones, stride, columns, ways, choose)
    return out


def make_layer(
    folder: str | Path,
    stones: int,
    *,
    rows: int = 6,
    columns: int = 7,
    inarow: int = 4,
    processes: int = 1,
    table_bits: int = 24,
    seconds: float | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Progress:
    """Solve a layer of the book, or go on with it, and keep what is known in the folder.

    It may be interrupted at any time (or stops after so many seconds): what is solved is saved every minute and at
    the end.
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
    known = start
    deeper = {n: other for n, other in book.layers.items() if n > stones}
    chunk = max(1, min(32, progress.total // 2000))  # of a small layer every position is a long search
    parts = [slice(first, first + chunk) for first in range(0, places.size, chunk)]
    tasks = ((number, positions[part].tolist(), masks[part].tolist()) for number, part in enumerate(parts))
    context = multiprocessing.get_context("spawn")
    settings = (Book(rows, columns, inarow, deeper), table_bits)
    with context.Pool(processes, _prepare, settings) as pool:  # leaving it ends the processes at once
        try:
            results = pool.imap_unordered(_solve, tasks)
            for _ in parts:
                left = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
                number, scores = results.next(left)
                layer[places[parts[number]]] = np.array(scores, dtype=np.int64) + 128
                known += len(scores)
                progress = Progress(known, progress.total, start)
                if report:
                    report(progress)
                if time.monotonic() - saved > 60:
                    _save(file, layer)
                    saved = time.monotonic()
        except multiprocessing.TimeoutError:
            pass
        finally:
            _save(file, layer)
    return progress


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


def _file(folder: str | Path, rows: int, columns: int, inarow: int, stones: int) -> Path:
    return Path(folder) / f"{rows}x{columns}x{inarow}-{stones}.npy"


def _save(file: Path, layer: NDArray[np.uint8]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".part{os.getpid()}.npy")
    np.save(part, layer)
    part.replace(file)


_solver: Solver | None = None


def _prepare(book: Book, table_bits: int) -> None:
    global _solver
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _solver = Solver(book.rows, book.columns, book.inarow, book=book, table_bits=table_bits)


def _solve(task: tuple[int, list[int], list[int]]) -> tuple[int, list[int]]:
    number, positions, masks = task
    assert _solver is not None
    scores: list[int] = []
    for position, mask in zip(positions, masks, strict=True):
        scores.append(_solver.score(position, mask, guess=scores[-1] if scores else None))
    return number, scores
