"""Make labels: positions from games, each with the exact score of every move.

Half of the games begin at random positions (`random_positions.py`) with any number of stones, and are played to their
end with a mix of perfect and random moves. Later positions of a game cost little, because the solver's table contains
most of what they need. If a network is given, it plays the other half against itself from such positions, and those
positions are labelled whose values the network is least certain of, because it learns most from them.

The solver needs long for an early position, but little more for all positions that follow from it. The option `follow`
labels all of them, the last ones first. In the middle game this gives ten times as many labels as games do.

The work is divided into numbered tasks whose games are drawn from the seed and the number. Workers of an engine compute
them (`regard.parallel`), and the main process writes the labels (`label_run.py`), so the labels do not depend on the
number of workers, and an interrupted run can continue.
"""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.connectx.data.label_run import LabelRun
from regard.connectx.data.label_storage import FULL, Records, make_records, open_folder, record_type
from regard.connectx.data.random_positions import random_positions
from regard.connectx.game.bitboard import Shape, completing_squares, has_line, playable_squares, safe_moves
from regard.connectx.game.board_batch import checked_shape, free_columns, planes_of
from regard.connectx.solver.opening_book import Book
from regard.connectx.solver.perfect_solver import Solver
from regard.numba_functions import uncompiled
from regard.parallel import Engine, Handle, Work, engine_or_local
from regard.parallel.work import cancelled
from regard.training.interrupts import stop_requested

Task = tuple[int, Handle | None]  # number of a task, and the network that plays in it

GAMES_PER_TASK = 32
PERFECT_SHARES = (0.5, 0.8, 1.0)  # each game has one of these shares of perfect moves
MAX_EARLY = 4  # labels of a game that begins early, at most: each takes the solver long
MAX_FOLLOW = 8  # largest value of `follow`: 8 moves already lead to hundreds of thousands of positions
UNCERTAIN_SHARE = 0.3  # share of the positions of a network's games that are labelled
SAVE_EVERY = 60.0  # seconds between two writes of the labels

_safe_moves, _playable_squares = uncompiled(safe_moves), uncompiled(playable_squares)
_completing_squares, _has_line = uncompiled(completing_squares), uncompiled(has_line)


@dataclass(frozen=True)
class LabelOptions:
    """Which positions are labelled.

    size            rows, columns, and stones in a row that win
    fewest          smallest number of stones of a labelled position; without a book the solver needs seconds for
                    positions with fewer stones than the default
    early           share of games that begin with less than a third of the squares occupied
    middle          share of games that begin with one to two thirds occupied; the others begin with more
    most            instead of early and middle: games begin with `fewest` to `most` stones
    follow          instead of playing a game that begins early or in the middle, label all positions that follow within
                    this many moves that do not lose at once; 0 plays games
    network         folder of a network that plays a share of the games
    by_network      share of the games that the network plays
    seed            seed of all random choices

    >>> LabelOptions(fewest=50)
    Traceback (most recent call last):
    ValueError: fewest must be 0 to 41 stones, got 50
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
                raise ValueError(f"{name} must be a share of games, 0 to 1, got {getattr(self, name)}")
        if not 0 <= self.follow <= MAX_FOLLOW:
            raise ValueError(f"follow must be 0 to {MAX_FOLLOW} moves, got {self.follow}")
        if self.early + self.middle > 1:
            raise ValueError(f"early + middle must be at most 1, got {self.early} and {self.middle}")

    def starts(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return a random number of stones at the start of each of `count` games."""
        if self.most is not None:
            return random.integers(self.fewest, self.most + 1, count)
        cells = self.size[0] * self.size[1]
        edges = np.maximum([self.fewest, cells // 3, 2 * cells // 3, cells - 2], self.fewest)
        third = random.choice(3, count, p=[self.early, self.middle, 1 - self.early - self.middle])
        low, high = edges[third], np.maximum(edges[third + 1], edges[third] + 1)
        return np.minimum(random.integers(low, high), cells - 1)


def label(
    folder: str | os.PathLike[str], options: LabelOptions, *, positions: int | None = None,
    minutes: float | None = None, processes: int = 1, engine: Engine | None = None, book: Book | None = None,
    table_bits: int = 23, report: Callable[[int], None] = lambda count: None,
) -> int:  # fmt: skip
    """Label positions with the exact score of every move, and return the number of labels.

    folder              folder of labels; new ones are added
    options             how positions are drawn
    positions, minutes  when to stop: one of the two
    processes           number of processes
    engine              runs the work; by default one of `processes` processes
    book                opening book of the solver
    table_bits          the solver's table has 2^table_bits entries
    report              called with the count after every task, and at the start with the positions of an interrupted
                        call, which this call continues

    After Ctrl-C the finished labels are saved, and KeyboardInterrupt is raised.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     label(folder, LabelOptions((4, 4, 3), fewest=4), positions=10, table_bits=16) >= 10
    True
    """
    if (positions is None) == (minutes is None):
        raise ValueError("give either the number of positions or the minutes")
    path, _ = open_folder(folder, options.size)
    end = math.inf if minutes is None else time.monotonic() + 60 * minutes
    saved = time.monotonic()
    with stop_requested() as stop, LabelRun.open(path, options, positions) as run:
        report(run.total)
        if not run.is_complete():
            with (
                engine_or_local(engine, processes) as engine,
                engine.start(_work(options, book, table_bits, engine)) as pool,
            ):
                network = _Network(options.network, engine)
                tasks = ((number, network.current()) for number in run.remaining())
                for (number, _), records in pool.results(tasks, stop=stop, end=end):
                    run.add(number, records)
                    report(len(records))
                    if run.is_complete():
                        break
                    if time.monotonic() - saved > SAVE_EVERY:
                        run.save()
                        saved = time.monotonic()
    return run.total


def _work(options: LabelOptions, book: Book | None, table_bits: int, engine: Engine) -> Work[Task, Records]:
    return Work(_prepare, (options, engine.share(book), table_bits), background=True)


@dataclass
class _Network:
    """The network that plays, which may be in training: it is shared again when its file changes."""

    folder: str | None
    engine: Engine
    loaded_at: float = 0.0  # modification time of the file
    handle: Handle | None = None

    def current(self) -> Handle | None:
        """Return the present network; None if there is none yet."""
        if self.folder is None:
            return None
        file = Path(self.folder) / "model.safetensors"
        modified = file.stat().st_mtime if file.exists() else 0.0
        if modified != self.loaded_at:
            from regard.models import BoardNet, Evaluator, load

            net = load(file.parent)
            assert isinstance(net, BoardNet)
            self.handle, self.loaded_at = self.engine.share(Evaluator(net)), modified
        return self.handle


def label_boards(solver: Solver, position: Any, mask: Any, source: int, shape: Shape) -> Records:
    """Solve these positions and return their records."""
    scores = [solver.move_scores(int(p), int(m)) for p, m in zip(position, mask, strict=True)]
    return make_records(np.asarray(position, np.int64), np.asarray(mask, np.int64), _as_bytes(scores), source, shape)


def _as_bytes(scores: list[list[int | None]]) -> NDArray[np.int8]:
    return np.array([[FULL if score is None else score for score in row] for row in scores], np.int8)


@dataclass
class _Worker:
    options: LabelOptions
    shape: Shape
    solver: Solver

    def __call__(self, task: Task) -> Records:
        """Play the games of a task, label positions of them, and return the records."""
        number, network = task
        random = np.random.default_rng([self.options.seed, number])
        by_network = self.options.network is not None and random.random() < self.options.by_network
        if by_network and network is not None:
            return self._network_games(network.value(), random)
        parts = [np.zeros(0, record_type(self.shape.columns))]
        stones = self.options.starts(GAMES_PER_TASK, random)
        for position, mask in zip(*random_positions(stones, self.shape, int(random.integers(2**62))), strict=True):
            if cancelled():
                break
            late = 3 * int(mask).bit_count() >= 2 * self.shape.rows * self.shape.columns
            if self.options.follow and not late:
                parts.append(self._following_positions(int(position), int(mask)))
            else:
                parts.append(self._game(int(position), int(mask), random))
        return np.concatenate(parts)

    def _following_positions(self, position: int, mask: int) -> Records:
        """Label the position and all that follow by safe moves, the latest first: the solver reuses their results."""
        layers = [{(position, mask)}]
        for _ in range(self.options.follow):
            layers.append({after for bits in layers[-1] for after in _after_safe_moves(*bits, self.shape)})
        records = [np.zeros(0, record_type(self.shape.columns))]
        for layer in reversed(layers):
            boards = sorted(layer)
            for at in range(0, len(boards), GAMES_PER_TASK):
                if cancelled():
                    return np.concatenate(records)
                positions, masks = zip(*boards[at : at + GAMES_PER_TASK], strict=True)
                records.append(label_boards(self.solver, positions, masks, 0, self.shape))
        return np.concatenate(records)

    def _game(self, position: int, mask: int, random: np.random.Generator) -> Records:
        """Play a game from this position to its end, with a share of perfect moves, and label its positions."""
        perfect = random.choice(PERFECT_SHARES)
        boards: list[tuple[int, int]] = []
        labels: list[list[int | None]] = []
        early = 3 * mask.bit_count() < self.shape.rows * self.shape.columns
        while mask != self.shape.full and not (early and len(labels) == MAX_EARLY):
            scores = self.solver.move_scores(position, mask)
            boards.append((position, mask))
            labels.append(scores)
            if random.random() < perfect:
                best = max(score for score in scores if score is not None)
                column = int(random.choice([c for c, score in enumerate(scores) if score == best]))
                column_squares = ((1 << self.shape.rows) - 1) << column * self.shape.stride
                stone = _playable_squares(mask, self.shape) & column_squares
            else:
                stone = _random_move(position, mask, self.shape, random)
            if _has_line(position | stone, self.shape):
                break
            position, mask = position ^ mask, mask | stone
        positions, masks = np.array(boards, np.int64).reshape(-1, 2).T.copy()
        return make_records(positions, masks, _as_bytes(labels), 0, self.shape)

    def _network_games(self, evaluator: Any, random: np.random.Generator) -> Records:
        """Let the network play against itself, and label the positions whose values it is least certain of."""
        stones = self.options.starts(4 * GAMES_PER_TASK, random)
        position, mask = random_positions(stones, self.shape, int(random.integers(2**62)))
        visited: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
        while len(mask):
            result = evaluator(planes_of(position, mask, self.shape), free_columns(mask, self.shape))
            policy, certainty = result.policy.astype(np.float64), np.abs(result.value.astype(np.float64))
            visited.append((position, mask, np.minimum(certainty, 1 - certainty)))
            greedy = policy.argmax(1)
            sampled = (policy.cumsum(1) > random.random((len(policy), 1))).argmax(1)
            columns = np.where(random.random(len(policy)) < 0.7, greedy, sampled)
            after = mask | (mask + (np.int64(1) << columns * self.shape.stride))
            mine = position | (mask ^ after)
            over = np.array([_has_line(int(stones), self.shape) for stones in mine]) | (after == self.shape.full)
            position, mask = (mine ^ after)[~over], after[~over]
        position, mask, uncertainty = (np.concatenate(parts) for parts in zip(*visited, strict=True))
        count = 0 if cancelled() else max(1, int(UNCERTAIN_SHARE * len(uncertainty)))
        most = np.argsort(-uncertainty, kind="stable")[:count]
        if not len(most):
            return np.zeros(0, record_type(self.shape.columns))
        return label_boards(self.solver, position[most], mask[most], 1, self.shape)


def _random_move(position: int, mask: int, shape: Shape, random: np.random.Generator) -> int:
    """Return a random safe square; with probability ¼, or if none is safe, any playable square."""
    moves = _safe_moves(position, mask, shape) if random.random() < 0.75 else 0
    moves = moves or _playable_squares(mask, shape)
    squares = _squares(moves)
    return squares[int(random.integers(len(squares)))]


def _after_safe_moves(position: int, mask: int, shape: Shape) -> list[tuple[int, int]]:
    """Return the positions after each safe move; no positions if the side to move can win at once."""
    if _completing_squares(position, shape) & _playable_squares(mask, shape):
        return []
    after = [(position ^ mask, mask | stone) for stone in _squares(_safe_moves(position, mask, shape))]
    return [bits for bits in after if bits[1] != shape.full]


def _squares(bits: int) -> list[int]:
    return [1 << bit for bit in range(bits.bit_length()) if bits >> bit & 1]


def _prepare(options: LabelOptions, book: Handle, table_bits: int) -> _Worker:
    solver = Solver(*options.size, book=book.value(), table_bits=table_bits)
    return _Worker(options, checked_shape(*options.size), solver)
