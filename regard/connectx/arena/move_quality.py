"""Quality of moves compared with perfect play, which, unlike wins, does not depend on the opponent.

A move *keeps* the value if the position after it has the same outcome (win, draw or loss) under perfect play. It is
*perfect* if it has the best score: the soonest win or the latest loss. Reported are the shares of such moves, and as
`error` the share of moves that do not keep the value.
"""

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.connectx.arena.match import Game
from regard.connectx.game.board import Board
from regard.connectx.players.player import Player
from regard.connectx.players.recipe import Players, share_player
from regard.files import explain_damage
from regard.parallel import Engine, Handle, Work, engine_or_local

SET_NAMES = ("L3_R1", "L2_R1", "L2_R2", "L1_R1", "L1_R2", "L1_R3")  # from endgame to opening, easy to hard
SHIPPED_SETS = Path(__file__).parents[1] / "positions"  # a sample of the standard sets
BATCH = 64  # number of positions in one call of `choose_all`

Scores = Sequence[int | None]
Task = tuple[str, str, int]  # player, set, and first position of a part of it


@dataclass
class Grades:
    """Numbers of moves, of moves that keep the value and of perfect moves; expected numbers for a random player."""

    moves: float = 0.0
    kept: float = 0.0
    perfect: float = 0.0

    def add(self, scores: Scores, probabilities: Sequence[float]) -> None:
        """Add one position: the score of every column, and the probability that the player chooses that column."""
        best = max(score for score in scores if score is not None)
        for score, probability in zip(scores, probabilities, strict=True):
            if probability:
                if score is None:
                    raise ValueError("the player chose a full column; it must choose a legal one")
                self.moves += probability
                self.kept += probability * (_sign(score) == _sign(best))
                self.perfect += probability * (score == best)

    @property
    def error(self) -> float:
        """Share of moves that do not keep the value."""
        return 1 - self.kept / self.moves if self.moves else 0.0

    def to_dict(self) -> dict[str, float]:
        """Return the number of moves and the shares, for JSON."""
        moves = max(self.moves, 1e-9)
        return {"moves": round(self.moves, 6), "kept": self.kept / moves, "perfect": self.perfect / moves}


def grade_games(
    games: Iterable[Game], scores: Callable[[Board], Scores], size: tuple[int, int, int] = (6, 7, 4),
    on_game: Callable[[], None] | None = None,
) -> dict[str, dict[int, Grades]]:  # fmt: skip
    """Return the grades of every player's moves in these games, by ply (stones on the board before the move).

    `scores` returns the score of every column, such as `Solver(...).scores`.
    """
    grades: dict[str, dict[int, Grades]] = {}
    cache: dict[Board, Scores] = {}
    for game in games:
        board = Board.from_moves(game.opening, *size)
        end = Board.from_moves(game.moves, *size).moves
        for ply in range(board.stones, len(end)):
            after = Board.from_moves(end[: ply + 1], *size)
            if board not in cache:
                cache[board] = scores(board)
            name = (game.first, game.second)[board.turn - 1]
            probabilities = [float(column == after.last) for column in range(size[1])]
            grades.setdefault(name, {}).setdefault(ply, Grades()).add(cache[board], probabilities)
            board = after
        if on_game is not None:
            on_game()
    return grades


def total(grades: Iterable[Grades]) -> Grades:
    """Return the sum of grades."""
    parts = list(grades)
    return Grades(sum(g.moves for g in parts), sum(g.kept for g in parts), sum(g.perfect for g in parts))


def read_positions(file: str | os.PathLike[str]) -> list[tuple[Board, list[int | None]]]:
    """Return positions with the score of every column; lines are `moves score s1 … s7`, x for a full column."""
    positions = []
    lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        with explain_damage(f"{file}, line {number}", "a position", "expected moves, a score and 7 scores"):
            if parts := line.split():
                if len(parts) != 9:
                    raise ValueError(f"got {line!r}")
                positions.append((Board.from_moves(parts[0]), [None if s == "x" else int(s) for s in parts[2:]]))
    return positions


def grade_positions(
    player: Player, positions: Iterable[tuple[Board, Scores]], on_position: Callable[[], None] | None = None
) -> Grades:
    """Return the grades of a player on positions with known scores.

    If the player has a method `policy`, the probabilities it returns are used instead of one move. If it has a method
    `choose_all`, many positions are evaluated at once.
    """
    grades = Grades()
    policy: Any = getattr(player, "policy", None)
    choose_all: Any = getattr(player, "choose_all", None)
    remaining = iter(positions)
    while batch := list(itertools.islice(remaining, 1 if choose_all is None else BATCH)):
        boards = [board for board, _ in batch]
        if policy is not None:
            policies = [policy(board) for board in boards]
        else:
            moves = [player.choose(board) for board in boards] if choose_all is None else choose_all(boards)
            policies = [
                [float(column == move) for column in range(board.columns)]
                for board, move in zip(boards, moves, strict=True)
            ]
        for (_, scores), probabilities in zip(batch, policies, strict=True):
            grades.add(scores, probabilities)
            if on_position is not None:
                on_position()
    return grades


def grade_players(
    names: Sequence[str], sets: Mapping[str, list[tuple[Board, list[int | None]]]], *, engine: Engine | None = None,
    on_positions: Callable[[int], None] = lambda count: None,
) -> dict[str, dict[str, Grades]]:  # fmt: skip
    """Return the grades of each of these players on each set of positions, {player: {set: grades}}.

    The workers of the engine, by default one process, grade parts of the sets. Each part has its own seed, so the
    grades do not depend on the number of workers.

    >>> grade_players(["greedy"], {"L3": read_positions(find_sets()["L3_R1"])[:5]})["greedy"]["L3"].moves
    5.0
    """
    tasks = [(name, kind, at) for name in names for kind in sets for at in range(0, len(sets[kind]), BATCH)]
    parts: dict[Task, Grades] = {}
    with engine_or_local(engine) as engine:
        handles = {name: share_player(name, engine) for name in names}
        work: Work[Task, Grades] = Work(_prepare, (handles, engine.share(dict(sets))))
        with engine.start(work) as pool:
            for task, grades in pool.results(tasks):
                parts[task] = grades
                on_positions(len(sets[task[1]][task[2] : task[2] + BATCH]))
    return {
        name: {kind: total(parts[task] for task in tasks if task[:2] == (name, kind)) for kind in sets}
        for name in names
    }


def _prepare(handles: dict[str, Handle], sets: Handle) -> Callable[[Task], Grades]:
    players = Players(handles)

    def grade(task: Task) -> Grades:
        name, kind, first = task
        seed = int.from_bytes(hashlib.sha256(f"{name} {kind} {first}".encode()).digest()[:6])
        return grade_positions(players(name, seed), sets.value()[kind][first : first + BATCH])

    return grade


def find_sets(folder: str | os.PathLike[str] = SHIPPED_SETS) -> dict[str, Path]:
    """Return the files of the six standard sets in a folder; by default the sample that comes with regard.

    >>> len(read_positions(find_sets()["L3_R1"]))
    40
    """
    paths = {name: Path(folder) / f"{name}.txt" for name in SET_NAMES}
    missing = [path.name for path in paths.values() if not path.is_file()]
    if missing:
        raise ValueError(f"{folder} must contain the six standard sets, but {', '.join(missing)} is missing")
    return paths


def set_bitboards(folder: str | os.PathLike[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return positions and masks of the six standard sets, so that training can leave them out."""
    boards = [board for file in find_sets(folder).values() for board, _ in read_positions(file)]
    position, mask = (np.array([getattr(board, name) for board in boards], np.int64) for name in ("position", "mask"))
    return position, mask


def _sign(score: int) -> int:
    return (score > 0) - (score < 0)
