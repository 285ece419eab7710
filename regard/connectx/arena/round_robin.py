"""Round robin: every player meets every other one, from both sides of each opening.

Games are played in several processes and written to a file one by one, so that an interrupted run can continue. A
pairing that the sequential test has decided plays no further games.
"""

import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.connectx.arena.match import Game, play_game
from regard.connectx.arena.rating import Rating, bradley_terry, score_interval, sequential_test
from regard.connectx.game.board import Board
from regard.connectx.game.openings import openings
from regard.connectx.players.player import Player
from regard.connectx.players.registry import AGENT_FILES, player
from regard.files import dataclass_from_json, explain_damage

Array = np.ndarray
Pair = tuple[Game, Game]
Key = tuple[str, str, str]  # players and opening of a game


@dataclass(frozen=True)
class ArenaPlan:
    """Settings of an arena: `games` for each pairing, half of them with each side.

    `stop_at` (Elo) ends a pairing as soon as it is decided at that difference; 0 plays all games.

    >>> ArenaPlan(("random", "greedy", "minimax:2"), games=4).pairings
    [('random', 'greedy'), ('random', 'minimax:2'), ('greedy', 'minimax:2')]
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
            raise ValueError(
                f"games must be even and at least 2, because each opening is played from both sides, got {self.games}"
            )

    @property
    def pairings(self) -> list[tuple[str, str]]:
        """All pairs of players."""
        return list(combinations(self.players, 2))


@dataclass
class ArenaResults:
    """The games of an arena so far, with counts, ratings and verdicts.

    >>> results = ArenaResults(ArenaPlan(("random", "greedy"), games=2), [Game("random", "greedy", "", "4", winner=2)])
    >>> results.counts()[0]
    array([[0, 0],
           [1, 0]])
    """

    plan: ArenaPlan
    games: list[Game] = field(default_factory=list)

    def counts(self) -> tuple[Array, Array]:
        """Return two matrices (players, players): wins of the row's player against the column's, and draws."""
        index = {name: at for at, name in enumerate(self.plan.players)}
        wins, draws = np.zeros((2, len(index), len(index)), np.int64)
        for game in self.games:
            a, b = index[game.first], index[game.second]
            if game.winner is None:
                draws[[a, b], [b, a]] += 1
            else:
                wins[(a, b) if game.winner == 1 else (b, a)] += 1
        return wins, draws

    def ratings(self) -> list[Rating]:
        """Return the Elo rating of each player."""
        return bradley_terry(*self.counts())

    def pairs(self, a: str, b: str) -> list[float]:
        """Return the mean points of player a against b, 0 to 1, for each opening whose two games are finished."""
        by_opening: dict[str, list[float]] = {}
        for game in self.games:
            if {game.first, game.second} == {a, b}:
                by_opening.setdefault(game.opening, []).append(game.points(a))
        return [sum(points) / 2 for points in by_opening.values() if len(points) == 2]

    def verdict(self, a: str, b: str) -> str:
        """Return whether player a is "better", "worse" or "equal"; "" if it is not decided yet, or `stop_at` is 0."""
        return sequential_test(self.pairs(a, b), self.plan.stop_at) if self.plan.stop_at else ""

    def to_dict(self) -> dict[str, Any]:
        """Return settings, players and pairings as a dictionary for JSON."""
        wins, draws = self.counts()
        players, pairings = [], []
        for at, (name, rating) in enumerate(zip(self.plan.players, self.ratings(), strict=True)):
            own_games = [game for game in self.games if name in (game.first, game.second)]
            slowest = max((game.slowest[game.second == name] for game in own_games), default=0.0)
            failed = [game.status for game in own_games if game.status != "DONE" and game.points(name) == 0]
            counts = _score(int(wins[at].sum()), int(draws[at].sum()), int(wins[:, at].sum()))
            players.append(
                {"name": name, "elo": rating.elo, "elo_margin": rating.margin}
                | counts
                | {"slowest_move": slowest, "failed": {status: failed.count(status) for status in sorted(set(failed))}}
            )
        for a, b in self.plan.pairings:
            i, j = self.plan.players.index(a), self.plan.players.index(b)
            counts = _score(int(wins[i, j]), int(draws[i, j]), int(wins[j, i]))
            pairings.append({"first": a, "second": b} | counts | {"decided": self.verdict(a, b)})
        settings = {
            "games": self.plan.games, "openings": self.plan.opening, "size": list(self.plan.size),
            "plies": self.plan.plies, "seed": self.plan.seed, "stop_at": self.plan.stop_at,
        }  # fmt: skip
        return {"settings": settings, "players": players, "pairings": pairings}


def _score(wins: int, draws: int, losses: int) -> dict[str, Any]:
    """Return the numbers of games, the share of points and its 95 % interval."""
    low, high = score_interval(wins, draws, losses)
    games = wins + draws + losses
    return {
        "games": games, "wins": wins, "draws": draws, "losses": losses, "score": (wins + draws / 2) / max(games, 1),
        "score_low": low, "score_high": high,
    }  # fmt: skip


def run_arena(
    plan: ArenaPlan | Iterable[str], *, file: str | os.PathLike[str] | None = None, processes: int = 1,
    on_games: Callable[[ArenaResults], None] | None = None, **settings: Any,
) -> ArenaResults:  # fmt: skip
    """Play the games of a plan that are not in the file yet, and return the results of all games.

    `plan` is an `ArenaPlan`, or the names of players with the fields of an `ArenaPlan` as keyword arguments. With
    `file`, games are appended to it as they end, and the games it contains are not played again. `on_games` is called
    after each pair of games.

    >>> results = run_arena(["greedy", "random"], games=4, opening="random", seed=1)
    >>> len(results.games), results.ratings()[0].elo > 0
    (4, True)
    """
    if not isinstance(plan, ArenaPlan):
        plan = ArenaPlan(tuple(plan), **settings)
    elif settings:
        raise TypeError(f"with an ArenaPlan, settings must be its fields, got keyword arguments {', '.join(settings)}")
    for name in plan.players:
        player(name)  # raises the error for an unknown name before any game is played
    results = ArenaResults(plan, [] if file is None else _read_own_games(file, plan))
    if on_games is not None:
        on_games(results)
    with open(os.devnull if file is None else file, "a", encoding="utf-8") as stream:
        boards = openings(plan.opening, plan.games // 2, plan.size, plies=plan.plies, seed=plan.seed)
        finished = {_key(game) for game in results.games}
        for pair in _play_pairs(results, boards, finished, processes):
            for game in pair:
                if _key(game) not in finished:  # after an interruption the file may contain one game of a pair
                    results.games.append(game)
                    stream.write(json.dumps(asdict(game), ensure_ascii=False) + "\n")
                    stream.flush()
            if on_games is not None:
                on_games(results)
    return results


def _play_pairs(results: ArenaResults, boards: Iterable[Board], finished: set[Key], processes: int) -> Iterator[Pair]:
    """Yield pairs of games as they end. All pairings play an opening before the next opening begins."""
    plan = results.plan
    remaining = (
        (a, b, board.moves)
        for board in boards
        for a, b in plan.pairings
        if not {(a, b, board.moves), (b, a, board.moves)} <= finished and not results.verdict(a, b)
    )
    if processes == 1:
        yield from (_play_pair(*task, plan.size, plan.seed) for task in remaining)
        return
    # New processes instead of forks: the threads of numba and of the players do not survive a fork.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _ignore_interrupts) as pool:
        running: set[Future[Pair]] = set()
        try:
            while True:
                for task in islice(remaining, processes + 1 - len(running)):
                    running.add(pool.submit(_play_pair, *task, plan.size, plan.seed))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which reaches every process of a terminal; the main process ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _key(game: Game) -> Key:
    return game.first, game.second, game.opening


_players: dict[str, Player] = {}


def _player_for_game(name: str, seed: int) -> Player:
    """Return a new player with this seed, so that games are reproducible; players that are slow to start are reused."""
    if name in _players:
        return _players[name]
    new = player(name, seed=seed)
    if name == "solver" or name.endswith(AGENT_FILES):
        _players[name] = new
    return new


def _play_pair(a: str, b: str, moves: str, size: tuple[int, int, int], seed: int) -> Pair:
    """Play both games of an opening."""
    board = Board.from_moves(moves, *size)
    games = []
    for first, second in ((a, b), (b, a)):
        digest = hashlib.sha256(f"{seed} {moves} {first} {second}".encode()).digest()
        seeds = int.from_bytes(digest[:6]), int.from_bytes(digest[6:12])
        games.append(play_game(_player_for_game(first, seeds[0]), _player_for_game(second, seeds[1]), board))
    return games[0], games[1]


def _read_own_games(file: str | os.PathLike[str], plan: ArenaPlan) -> list[Game]:
    """Return the games in the file that the plan's players played; create the file if it does not exist."""
    path = Path(file)
    head = {"arena": 1, "size": list(plan.size), "openings": plan.opening, "plies": plan.plies, "seed": plan.seed}
    content = path.read_bytes() if path.exists() else b""
    if not content:
        path.write_text(json.dumps(head) + "\n", encoding="utf-8")
        return []
    end = content.rfind(b"\n") + 1  # a line that was cut off by a crash is removed, and its game played again
    lines = content[:end].decode(errors="replace").splitlines()
    if not lines or lines[0] != json.dumps(head):
        raise ValueError(
            f"{path} contains games of another arena; give another file, or the same size, openings and seed"
        )
    if len(content) != end:
        os.truncate(path, end)
    with explain_damage(path, "a file of an arena", "remove the damaged lines"):
        entries = [json.loads(line) for line in lines[1:]]
        games = [dataclass_from_json(Game, entry | {"slowest": tuple(entry["slowest"])}) for entry in entries]
    return [game for game in games if game.first in plan.players and game.second in plan.players]
