"""Round robin: every player meets every other one, from both sides of each opening.

Workers of an engine play the games (`regard.parallel`), and the main process writes them to a file one by one, so that
an interrupted run can continue. A pairing that the sequential test has decided plays no further games. The test looks
at the openings in their order, and later games, which other workers have played meanwhile, do not count; so the results
do not depend on the number of workers.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from regard.connectx.arena.match import Game, play_game
from regard.connectx.arena.rating import Rating, bradley_terry, score_interval, sequential_test
from regard.connectx.game.board import Board
from regard.connectx.game.openings import openings
from regard.connectx.players.recipe import Players, share_player
from regard.connectx.players.registry import player
from regard.files import dataclass_from_json, explain_damage, json_line, parse_json, verify_json
from regard.parallel import Engine, Handle, Work, engine_or_local

Array = np.ndarray
Pair = tuple[Game, Game]
Key = tuple[str, str, str]  # players and opening of a game
Task = tuple[str, str, str]  # two players and an opening, from which both games are played


@dataclass(frozen=True)
class ArenaPlan:
    """Settings of an arena.

    players     names of the players, as for `player`
    games       games of each pairing, half of them with each side
    opening     kind of openings, as for `openings`
    size        rows, columns and stones in a line that win
    plies       number of moves of an opening
    seed        seed of the openings
    stop_at     Elo: ends a pairing as soon as it is decided at that difference; 0 plays all games

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

    plan        settings of the arena
    games       the games that were played

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
    engine: Engine | None = None, on_games: Callable[[ArenaResults], None] | None = None, **settings: Any,
) -> ArenaResults:  # fmt: skip
    """Play the games of a plan that are not in the file yet, and return the results of all games.

    plan        an `ArenaPlan`, or the names of players
    file        games are appended to it as they end, and the games it contains are not played again
    processes   number of processes that play
    engine      runs the games; by default one of `processes` processes
    on_games    called after each pair of games
    settings    fields of the `ArenaPlan`, if `plan` has only the names

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
        verdicts = _Verdicts(results)
        for pair in _play_pairs(verdicts, boards, finished, engine, processes):
            for game in pair:
                if _key(game) not in finished:  # after an interruption the file may contain one game of a pair
                    results.games.append(game)
                    verdicts.add(game)
                    stream.write(json_line(asdict(game)))
                    stream.flush()
            if on_games is not None:
                on_games(results)
        results.games = verdicts.counted_games()
    return results


class _Verdicts:
    """The openings in their order, and which pairings the games from the first of them have decided."""

    def __init__(self, results: ArenaResults) -> None:
        self.results, self.plan = results, results.plan
        self.openings: list[str] = []
        self._points: dict[tuple[str, str], dict[str, list[float]]] = {pair: {} for pair in self.plan.pairings}
        self._tested: dict[tuple[str, str], list[float]] = {pair: [] for pair in self.plan.pairings}
        self._decided: set[tuple[str, str]] = set()
        for game in results.games:
            self.add(game)

    def add(self, game: Game) -> None:
        """Add a game that has ended."""
        a, b = self._pairing(game)
        self._points[a, b].setdefault(game.opening, []).append(game.points(a))

    def _pairing(self, game: Game) -> tuple[str, str]:
        pair = game.first, game.second
        return pair if pair in self._points else pair[::-1]

    def is_decided(self, a: str, b: str) -> bool:
        """Return whether the games of this pairing from the first openings, in order and without gaps, decide it."""
        points, tested = self._points[a, b], self._tested[a, b]
        while self.plan.stop_at and (a, b) not in self._decided and len(tested) < len(self.openings):
            pair = points.get(self.openings[len(tested)], [])
            if len(pair) < 2:
                break
            tested.append(sum(pair) / 2)
            if sequential_test(tested, self.plan.stop_at):
                self._decided.add((a, b))
        return (a, b) in self._decided

    def counted_games(self) -> list[Game]:
        """Return the games in the order of openings and pairings, without those after a decision."""
        opening = {moves: number for number, moves in enumerate(self.openings)}
        pairing = {pair: number for number, pair in enumerate(self.plan.pairings)}
        most = {pair: len(self._tested[pair]) for pair in self.plan.pairings if self.is_decided(*pair)}
        last = len(opening)  # openings that only an earlier, longer run played come last
        games = [(opening.get(game.opening, last), self._pairing(game), game) for game in self.results.games]
        counted = [entry for entry in games if entry[0] < most.get(entry[1], last + 1)]
        counted.sort(key=lambda entry: (entry[0], entry[2].opening, pairing[entry[1]], entry[2].first != entry[1][0]))
        return [game for _, _, game in counted]


def _play_pairs(
    verdicts: _Verdicts, boards: Iterable[Board], finished: set[Key], engine: Engine | None, processes: int
) -> Iterator[Pair]:
    """Yield pairs of games as they end. All pairings play an opening before the next opening begins."""
    plan = verdicts.plan

    def remaining() -> Iterator[Task]:
        for board in boards:
            verdicts.openings.append(board.moves)
            for a, b in plan.pairings:
                played = {(a, b, board.moves), (b, a, board.moves)} <= finished
                if not played and not verdicts.is_decided(a, b):
                    yield a, b, board.moves

    with engine_or_local(engine, processes) as engine:
        handles = {name: share_player(name, engine) for name in plan.players}
        with engine.start(Work(_prepare, (handles, plan.size, plan.seed))) as pool:
            yield from (pair for _, pair in pool.results(remaining()))


def _key(game: Game) -> Key:
    return game.first, game.second, game.opening


def _prepare(handles: dict[str, Handle], size: tuple[int, int, int], seed: int) -> Callable[[Task], Pair]:
    players = Players(handles)

    def play_pair(task: Task) -> Pair:
        """Play both games of an opening."""
        a, b, moves = task
        board = Board.from_moves(moves, *size)
        games = []
        for first, second in ((a, b), (b, a)):
            digest = hashlib.sha256(f"{seed} {moves} {first} {second}".encode()).digest()
            seeds = int.from_bytes(digest[:6]), int.from_bytes(digest[6:12])
            games.append(play_game(players(first, seeds[0]), players(second, seeds[1]), board))
        return games[0], games[1]

    return play_pair


def _read_own_games(file: str | os.PathLike[str], plan: ArenaPlan) -> list[Game]:
    """Return the games in the file that the plan's players played; create the file if it does not exist."""
    path = Path(file)
    head = {"arena": 1, "size": list(plan.size), "openings": plan.opening, "plies": plan.plies, "seed": plan.seed}
    content = path.read_bytes() if path.exists() else b""
    if not content:
        path.write_text(json.dumps(head) + "\n", encoding="utf-8")
        return []
    end = content.rfind(b"\n") + 1  # a line that was cut off by a crash is removed, and its game played again
    lines = content[:end].split(b"\n")[:-1]
    if not lines or lines[0].decode(errors="replace") != json.dumps(head):
        raise ValueError(
            f"{path} contains games of another arena; give another file, or the same size, openings and seed"
        )
    if len(content) != end:
        os.truncate(path, end)
    with explain_damage(path, "a file of an arena", "remove the damaged lines"):
        entries = [verify_json(parse_json(line)) for line in lines[1:]]
        games = [dataclass_from_json(Game, entry | {"slowest": tuple(entry["slowest"])}) for entry in entries]
    return [game for game in games if game.first in plan.players and game.second in plan.players]
