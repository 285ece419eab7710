"""Round robin: everyone against everyone, both sides of every opening.

Games are played in several processes and written down one by one, so that a run that was stopped goes on where it
was. A pairing that is decided (`rating.decided`) plays no further.
"""

import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from regard.connectx.arena.match import Game, play_game
from regard.connectx.arena.rating import Rating, bradley_terry, decided, score_interval
from regard.connectx.game.board import Board
from regard.connectx.game.openings import openings
from regard.connectx.players.registry import Player, player

Array = np.ndarray
Pair = tuple[Game, Game]


@dataclass(frozen=True)
class Plan:
    """What is to be played: `games` for each pairing, half of them with each side.

    `stop_at` (Elo) ends a pairing as soon as it is decided at that difference; 0 plays all games.
    """

    players: tuple[str, ...]
    games: int = 100
    opening: str = "balanced"
    size: tuple[int, int, int] = (6, 7, 4)
    plies: int = 8
    seed: int = 0
    stop_at: float = 0.0

    def __post_init__(self) -> None:
        if len(set(self.players)) != len(self.players) or len(self.players) < 2:
            raise ValueError(f"an arena needs two or more different players, got {', '.join(self.players) or 'none'}")
        if self.games < 2 or self.games % 2:
            raise ValueError(f"games must be even, both sides of every opening, and at least 2, got {self.games}")

    @property
    def pairings(self) -> list[tuple[str, str]]:
        """Who meets whom."""
        return list(combinations(self.players, 2))


@dataclass
class Standing:
    """The games so far, and what they say."""

    plan: Plan
    games: list[Game] = field(default_factory=list)

    def counts(self) -> tuple[Array, Array]:
        """Wins (players, players) of the row against the column, and draws."""
        place = {name: at for at, name in enumerate(self.plan.players)}
        wins, draws = np.zeros((2, len(place), len(place)), np.int64)
        for game in self.games:
            a, b = place[game.first], place[game.second]
            if game.winner is None:
                draws[a, b] += 1
                draws[b, a] += 1
            else:
                winner, loser = (a, b) if game.winner == 1 else (b, a)
                wins[winner, loser] += 1
        return wins, draws

    def ratings(self) -> list[Rating]:
        """Elo of each player."""
        return bradley_terry(*self.counts())

    def pairs(self, a: str, b: str) -> list[float]:
        """The points of a against b, 0 to 1, for each opening of which both games are there."""
        by_opening: dict[str, list[float]] = {}
        for game in self.games:
            if {game.first, game.second} == {a, b}:
                by_opening.setdefault(game.opening, []).append(game.points(a))
        return [sum(points) / 2 for points in by_opening.values() if len(points) == 2]

    def verdict(self, a: str, b: str) -> str:
        """Whether a is "better", "worse" or "equal"; "" if that is not decided, or not asked for."""
        return decided(self.pairs(a, b), self.plan.stop_at) if self.plan.stop_at else ""

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        wins, draws = self.counts()
        players = []
        for at, (name, rating) in enumerate(zip(self.plan.players, self.ratings(), strict=True)):
            w, d, lost = int(wins[at].sum()), int(draws[at].sum()), int(wins[:, at].sum())
            low, high = score_interval(w, d, lost)
            mine = [game for game in self.games if name in (game.first, game.second)]
            slowest = max((game.slowest[game.second == name] for game in mine), default=0.0)
            failed = [game.status for game in mine if game.status != "DONE" and game.points(name) == 0]
            players.append(
                {
                    "name": name, "elo": rating.elo, "elo_margin": rating.margin, "games": w + d + lost, "wins": w,
                    "draws": d, "losses": lost, "score": (w + d / 2) / max(w + d + lost, 1), "score_low": low,
                    "score_high": high, "slowest_move": slowest,
                    "failed": {status: failed.count(status) for status in sorted(set(failed))},
                }
            )  # fmt: skip
        pairings = []
        for a, b in self.plan.pairings:
            i, j = self.plan.players.index(a), self.plan.players.index(b)
            w, d, lost = int(wins[i, j]), int(draws[i, j]), int(wins[j, i])
            low, high = score_interval(w, d, lost)
            pairings.append(
                {
                    "first": a, "second": b, "wins": w, "draws": d, "losses": lost,
                    "score": (w + d / 2) / max(w + d + lost, 1), "score_low": low, "score_high": high,
                    "decided": self.verdict(a, b),
                }
            )  # fmt: skip
        settings = {
            "games": self.plan.games, "openings": self.plan.opening, "size": list(self.plan.size),
            "plies": self.plan.plies, "seed": self.plan.seed, "stop_at": self.plan.stop_at,
        }  # fmt: skip
        return {"settings": settings, "players": players, "pairings": pairings}


def run(
    plan: Plan,
    *,
    file: str | os.PathLike[str] | None = None,
    processes: int = 1,
    on_games: Callable[[Standing], None] | None = None,
) -> Standing:
    """Play what is planned and not yet in the file; `on_games` is called whenever some are written."""
    for name in plan.players:
        player(name)  # a name that means nothing is said before anything is played
    standing = Standing(plan)
    with _Record(plan, file) as record:
        standing.games = record.kept
        if on_games is not None:
            on_games(standing)
        boards = openings(plan.opening, plan.games // 2, plan.size, plies=plan.plies, seed=plan.seed)
        there = {_key(game) for game in standing.games}
        for pair in _played(plan, standing, boards, processes):
            for game in pair:
                if _key(game) not in there:  # of a pair cut short, one game may be
                    standing.games.append(game)
                    record.write(game)
            if on_games is not None:
                on_games(standing)
    return standing


def _played(plan: Plan, standing: Standing, boards: Iterable[Board], processes: int) -> Iterator[Pair]:
    """Pairs of games as they end. Openings go round the pairings, so that all are equally far when stopped."""
    there = {_key(game) for game in standing.games}
    open_ = (
        (a, b, board.moves)
        for board in boards
        for a, b in plan.pairings
        if not {(a, b, board.moves), (b, a, board.moves)} <= there and not standing.verdict(a, b)
    )
    if processes == 1:
        for a, b, moves in open_:
            yield _pair(a, b, moves, plan.size, plan.seed)
        return
    # Fresh processes: numba's and the players' threads do not survive a fork.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _deaf) as pool:
        running: set[Future[Pair]] = set()
        try:
            for a, b, moves in open_:
                running.add(pool.submit(_pair, a, b, moves, plan.size, plan.seed))
                if len(running) > processes:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in _as_they_end(running))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _deaf() -> None:
    """Ctrl-C reaches every process of a terminal; the one that counts will end the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _key(game: Game) -> tuple[str, str, str]:
    return game.first, game.second, game.opening


def _as_they_end(running: set[Future[Pair]]) -> Iterator[Future[Pair]]:
    while running:
        done, running = wait(running, return_when=FIRST_COMPLETED)
        yield from done


_kept: dict[str, Player] = {}


def _seated(name: str, seed: int) -> Player:
    """The player, fresh for each game so that it can be repeated; those costly to start are kept."""
    if name in _kept:
        return _kept[name]
    made = player(name, seed=seed)
    if name == "solver" or name.endswith((".py", ".tar.gz")):
        _kept[name] = made
    return made


def _pair(a: str, b: str, moves: str, size: tuple[int, int, int], seed: int) -> Pair:
    """Both games of an opening."""
    board = Board.from_moves(moves, *size)
    games = []
    for first, second in ((a, b), (b, a)):
        lot = hashlib.sha256(f"{seed} {moves} {first} {second}".encode()).digest()
        one, two = _seated(first, int.from_bytes(lot[:6])), _seated(second, int.from_bytes(lot[6:12]))
        games.append(play_game(one, two, board))
    return games[0], games[1]


class _Record:
    """The games in a file, a line of JSON each, under a line that says what is played."""

    def __init__(self, plan: Plan, file: str | os.PathLike[str] | None) -> None:
        self.path = None if file is None else Path(file)
        self.kept: list[Game] = []
        self._stream: TextIO | None = None
        head = {"arena": 1, "size": list(plan.size), "openings": plan.opening, "plies": plan.plies, "seed": plan.seed}
        self._head = json.dumps(head)
        if self.path is not None and self.path.exists() and self.path.stat().st_size:
            self._read(plan)

    def _read(self, plan: Plan) -> None:
        assert self.path is not None
        whole = self.path.read_bytes()
        lines = whole[: whole.rfind(b"\n") + 1].decode().splitlines()  # a line cut short by a crash is played again
        if not lines or lines[0] != self._head:
            raise ValueError(
                f"{self.path} holds games of another arena; give another file, or the same size, openings and seed"
            )
        for line in lines[1:]:
            entry = json.loads(line)
            game = Game(**entry | {"slowest": tuple(entry["slowest"])})
            if game.first in plan.players and game.second in plan.players:
                self.kept.append(game)
        if len(whole) != whole.rfind(b"\n") + 1:
            os.truncate(self.path, whole.rfind(b"\n") + 1)

    def __enter__(self) -> "_Record":
        if self.path is not None:
            new = not self.path.exists() or not self.path.stat().st_size
            self._stream = self.path.open("a", encoding="utf-8")
            if new:
                self._line(self._head)
        return self

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def write(self, game: Game) -> None:
        """Add a game."""
        self._line(json.dumps(game.as_dict(), ensure_ascii=False))

    def _line(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text + "\n")
            self._stream.flush()


def read_games(file: str | os.PathLike[str]) -> Iterable[Game]:
    """The games that an arena wrote down."""
    with open(file, encoding="utf-8") as stream:
        next(stream)
        for line in stream:
            entry = json.loads(line)
            yield Game(**entry | {"slowest": tuple(entry["slowest"])})


def cores() -> int:
    """How many processes can work at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
