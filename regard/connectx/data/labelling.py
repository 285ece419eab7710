"""Making labels: positions that games pass through, each with the exact score of every move.

Half of the games begin by lot (drawing.py), at any number of stones, and go on to their end with perfect moves mixed
with careless ones; a game's later positions cost little, since the solver has met them already. The other half, where a
network is given, is played by the network against itself from such beginnings, and of the positions it passes through
those are labelled of whose value it is least sure: there it learns most.

An early position takes the solver long, but those that follow from it cost little more than one: `follow` labels all of
them, the last ones first. In the middle this gives ten times as many labels as games do, and none of the end.

Several processes label, or one thread, and one writes. What is labelled is written every minute and at the end, and the
same command goes on from there: a task's games follow from the seed and the task's number.
"""

import multiprocessing
import multiprocessing.synchronize
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.compiled import uncompiled
from regard.connectx.data.labels import FULL, Records, open_folder, record_type, recorded, shards, write_shard
from regard.connectx.data.random_positions import drawn_positions
from regard.connectx.game.bitboard import Shape, aligned, careful, completing, possible
from regard.connectx.game.board_batch import checked_shape, free_columns, planes_of
from regard.connectx.solver.opening_book import Book
from regard.connectx.solver.solver import Solver
from regard.training.interrupts import stop_requested

Event = threading.Event | multiprocessing.synchronize.Event

GAMES = 32  # of a task
PERFECT = (0.5, 0.8, 1.0)  # shares of perfect moves in a game that goes on
FEW = 4  # positions that are labelled of a game that begins early, where each takes long
MOST_FOLLOWING = 8  # moves: hundreds of thousands of positions
UNSURE = 0.3  # of the positions that a network's games pass through, so many are labelled
SAVE_EVERY = 60.0  # seconds

_careful, _possible, _completing, _aligned = map(uncompiled, (careful, possible, completing, aligned))


@dataclass(frozen=True)
class Draw:
    """Which positions are labelled.

    size            rows, columns, in a row
    fewest          stones on the board where games begin to be labelled; the solver needs seconds for earlier ones,
                    unless it has a book
    early           share of games that begin within the first third of the board, and
    middle          within the second; the others begin in the last
    most            instead of early and middle: games begin with any number of stones from `fewest` to this
    follow          instead of a game from the first two thirds, all positions that follow within so many moves, none
                    of which loses at once; 0 plays on
    network         the folder of a network that plays a part of the games
    by_network      how large a part
    seed            of everything that is drawn
    """

    size: tuple[int, int, int] = (6, 7, 4)
    fewest: int = 10
    early: float = 0.1
    middle: float = 0.5
    most: int | None = None
    follow: int = 0
    network: str | None = None
    by_network: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        cells = self.size[0] * self.size[1]
        if not 0 <= self.fewest < cells:
            raise ValueError(f"fewest must be 0 to {cells - 1} stones, got {self.fewest}")
        if self.most is not None and not self.fewest <= self.most < cells:
            raise ValueError(f"most must be {self.fewest} (fewest) to {cells - 1} stones, got {self.most}")
        for name in ("early", "middle", "by_network"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share of games, 0 to 1, got {getattr(self, name)}")
        if not 0 <= self.follow <= MOST_FOLLOWING:
            raise ValueError(f"follow must be 0 to {MOST_FOLLOWING} moves, got {self.follow}")
        if self.early + self.middle > 1:
            raise ValueError(f"early and middle are shares of all games, got {self.early} and {self.middle}")

    def starts(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """With how many stones each of so many games begins."""
        if self.most is not None:
            return random.integers(self.fewest, self.most + 1, count)
        cells = self.size[0] * self.size[1]
        edges = np.maximum([self.fewest, cells // 3, 2 * cells // 3, cells - 2], self.fewest)
        third = random.choice(3, count, p=[self.early, self.middle, 1 - self.early - self.middle])
        low, high = edges[third], np.maximum(edges[third + 1], edges[third] + 1)
        return np.minimum(random.integers(low, high), cells - 1)


def label(
    folder: str | os.PathLike[str],
    draw: Draw,
    *,
    positions: int | None = None,
    minutes: float | None = None,
    processes: int = 1,
    book: Book | None = None,
    table_bits: int = 23,
    report: Callable[[int], None] = lambda count: None,
) -> int:
    """Label so many positions, or for so long, and give their number; `report` hears of every batch.

    Interrupted (Ctrl-C), it writes what it has and passes the interruption on.
    """
    if (positions is None) == (minutes is None):
        raise ValueError("say how much to label: so many positions, or for so many minutes")
    if processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")
    path, _shape = open_folder(folder, draw.size)
    done = shards(path)
    first = int(done[-1].stem) + 1 if done else 0
    end = None if minutes is None else time.monotonic() + 60 * minutes
    waiting: list[Records] = []
    count, number, saved = 0, first, time.monotonic()

    def write() -> None:
        nonlocal saved
        saved = time.monotonic()
        if waiting:
            write_shard(path, number, np.concatenate(waiting))
            waiting.clear()

    running: deque[Future[tuple[int, Records]]] = deque()
    with stop_requested() as stop, _pool(processes, draw, book, table_bits) as (pool, over):
        try:
            while (positions is None or count < positions) and (end is None or time.monotonic() < end):
                while len(running) < 2 * processes:
                    running.append(pool.submit(_task, first))
                    first += 1
                if stop.is_set():
                    raise KeyboardInterrupt
                with suppress(TimeoutError):
                    number, records = running[0].result(0.2)
                    running.popleft()
                    waiting.append(records)
                    count += len(records)
                    report(len(records))
                if time.monotonic() - saved > SAVE_EVERY:
                    write()
        finally:
            over.set()
            write()
            pool.shutdown(cancel_futures=True)
    return count


@contextmanager
def _pool(processes: int, draw: Draw, book: Book | None, table_bits: int) -> Iterator[tuple[Executor, Event]]:
    """Those who label, and what asks them to end. One needs no process of its own: a search lets other threads run."""
    if processes == 1:
        ending = threading.Event()
        with ThreadPoolExecutor(1, "labels", _prepare, (draw, book, table_bits, ending)) as thread:
            yield thread, ending
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy threads that are not there
    over = context.Event()  # a process that is killed may take a lock with it: they are asked to end instead
    with ProcessPoolExecutor(processes, context, _prepare_process, (draw, book, table_bits, over)) as pool:
        yield pool, over


def label_boards(solver: Solver, position: Any, mask: Any, source: int, shape: Shape) -> Records:
    """Records of these positions."""
    scores = [solver.move_scores(int(p), int(m)) for p, m in zip(position, mask, strict=True)]
    return recorded(np.asarray(position, np.int64), np.asarray(mask, np.int64), as_bytes(scores), source, shape)


def as_bytes(scores: list[list[int | None]]) -> NDArray[np.int8]:
    """Scores as they are stored."""
    return np.array([[FULL if score is None else score for score in row] for row in scores], np.int8)


@dataclass
class _Worker:
    draw: Draw
    shape: Shape
    solver: Solver
    over: Event
    evaluator: Any = None
    stamp: float = 0.0

    def games(self, number: int) -> Records:
        """The labels of a task."""
        random = np.random.default_rng([self.draw.seed, number])
        by_network = self.draw.network is not None and random.random() < self.draw.by_network
        if by_network and self._refresh():
            return self._by_network(random)
        parts = [np.zeros(0, record_type(self.shape.columns))]
        stones = self.draw.starts(GAMES, random)
        for position, mask in zip(*drawn_positions(stones, self.shape, int(random.integers(2**62))), strict=True):
            if self.over.is_set():
                break
            if self.draw.follow and not self._late(int(mask)):
                parts.append(self._all_that_follow(int(position), int(mask)))
            else:
                parts.append(self._to_the_end(int(position), int(mask), random))
        return np.concatenate(parts)

    def _early(self, mask: int) -> bool:
        return 3 * mask.bit_count() < self.shape.rows * self.shape.columns

    def _late(self, mask: int) -> bool:
        return 3 * mask.bit_count() >= 2 * self.shape.rows * self.shape.columns

    def _all_that_follow(self, position: int, mask: int) -> Records:
        """The position and all that careful moves lead to, those with most stones first: the solver's table then knows
        what the others take."""
        layers = [{(position, mask)}]
        for _ in range(self.draw.follow):
            layers.append({after for one in layers[-1] for after in _after_careful_moves(*one, self.shape)})
        found = [np.zeros(0, record_type(self.shape.columns))]
        for layer in reversed(layers):
            boards = sorted(layer)
            for at in range(0, len(boards), GAMES):
                if self.over.is_set():
                    return np.concatenate(found)
                own, all_ = zip(*boards[at : at + GAMES], strict=True)
                found.append(label_boards(self.solver, own, all_, 0, self.shape))
        return np.concatenate(found)

    def _to_the_end(self, position: int, mask: int, random: np.random.Generator) -> Records:
        """The positions of a game from here on, played with a share of perfect moves."""
        perfect = random.choice(PERFECT)
        positions: list[int] = []
        masks: list[int] = []
        labels: list[list[int | None]] = []
        early = self._early(mask)
        while mask != self.shape.full and not (early and len(labels) == FEW):
            scores = self.solver.move_scores(position, mask)
            positions.append(position)
            masks.append(mask)
            labels.append(scores)
            if random.random() < perfect:
                best = max(score for score in scores if score is not None)
                column = int(random.choice([c for c, score in enumerate(scores) if score == best]))
                stone = _possible(mask, self.shape) & (((1 << self.shape.rows) - 1) << column * self.shape.stride)
            else:
                stone = _any(position, mask, self.shape, random)
            if _aligned(position | stone, self.shape):
                break
            position, mask = position ^ mask, mask | stone
        return recorded(
            np.array(positions, np.int64), np.array(masks, np.int64), as_bytes(labels), 0, self.shape
        )  # fmt: skip

    def _by_network(self, random: np.random.Generator) -> Records:
        """Positions of a network's games against itself, those it is least sure of."""
        stones = self.draw.starts(4 * GAMES, random)
        position, mask = drawn_positions(stones, self.shape, int(random.integers(2**62)))
        met: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
        while len(mask):
            policy, value = self._judged(position, mask)
            met.append((position, mask, np.minimum(np.abs(value), 1 - np.abs(value))))
            greedy = policy.argmax(1)
            by_lot = (policy.cumsum(1) > random.random((len(policy), 1))).argmax(1)
            columns = np.where(random.random(len(policy)) < 0.7, greedy, by_lot)
            after = mask | (mask + (np.int64(1) << columns * self.shape.stride))
            mine = position | (mask ^ after)
            over = np.array([_aligned(int(stones), self.shape) for stones in mine]) | (after == self.shape.full)
            position, mask = (mine ^ after)[~over], after[~over]
        position, mask, unsure = (np.concatenate(parts) for parts in zip(*met, strict=True))
        most = np.argsort(-unsure, kind="stable")[: 0 if self.over.is_set() else max(1, int(UNSURE * len(unsure)))]
        if not len(most):
            return np.zeros(0, record_type(self.shape.columns))
        return label_boards(self.solver, position[most], mask[most], 1, self.shape)

    def _judged(self, position: Any, mask: Any) -> tuple[Any, Any]:
        judged = self.evaluator(planes_of(position, mask, self.shape), free_columns(mask, self.shape))
        return judged.policy.astype(np.float64), judged.value.astype(np.float64)

    def _refresh(self) -> bool:
        """Take the network as it is now: it may be in training meanwhile. False while there is none."""
        import torch

        from regard.models import BoardNet, Evaluator, load

        file = Path(str(self.draw.network)) / "model.safetensors"
        stamp = file.stat().st_mtime if file.exists() else 0.0
        if stamp != self.stamp:
            if multiprocessing.parent_process() is not None:
                torch.set_num_threads(1)  # each process has a core
            net = load(file.parent)
            assert isinstance(net, BoardNet)
            self.evaluator, self.stamp = Evaluator(net), stamp
        return self.evaluator is not None


def _any(position: int, mask: int, shape: Shape, random: np.random.Generator) -> int:
    """A careful square, or where there is none, or one time in four, any."""
    moves = _careful(position, mask, shape) if random.random() < 0.75 else 0
    moves = moves or _possible(mask, shape)
    squares = _squares(moves)
    return squares[int(random.integers(len(squares)))]


def _after_careful_moves(position: int, mask: int, shape: Shape) -> list[tuple[int, int]]:
    """What comes after moves that neither miss a win nor lose at once."""
    if _completing(position, shape) & _possible(mask, shape):
        return []
    after = [(position ^ mask, mask | stone) for stone in _squares(_careful(position, mask, shape))]
    return [one for one in after if one[1] != shape.full]


def _squares(bits: int) -> list[int]:
    return [1 << bit for bit in range(bits.bit_length()) if bits >> bit & 1]


_worker: _Worker | None = None


def _prepare_process(draw: Draw, book: Book | None, table_bits: int, over: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _prepare(draw, book, table_bits, over)


def _prepare(draw: Draw, book: Book | None, table_bits: int, over: Event) -> None:
    global _worker
    solver = Solver(*draw.size, book=book, table_bits=table_bits)
    _worker = _Worker(draw, checked_shape(*draw.size), solver, over)


def _task(number: int) -> tuple[int, Records]:
    assert _worker is not None
    return number, _worker.games(number)
