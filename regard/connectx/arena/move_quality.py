"""How good the moves are, graded by perfect play: beside wins, which depend on the opponent.

A move *keeps* the value when it leaves what was to be had (a win, a draw); it is *perfect* when it is one of the best:
the soonest win, the latest loss. Both are shares of moves; `error` is what does not keep.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.connectx.arena.match import Game
from regard.connectx.game.board import Board
from regard.connectx.players.registry import Player

SETS = ("L3_R1", "L2_R1", "L2_R2", "L1_R1", "L1_R2", "L1_R3")  # end to beginning, easy to hard

TOGETHER = 64  # positions that a player is asked about at once, if it can

Scores = Sequence[int | None]


@dataclass
class Grades:
    """Moves counted; for a player that draws lots, in expectation."""

    moves: float = 0.0
    kept: float = 0.0
    perfect: float = 0.0

    def add(self, scores: Scores, chances: Sequence[float]) -> None:
        """Count one position: the score of every column, and the chance that each is chosen."""
        best = max(score for score in scores if score is not None)
        for score, chance in zip(scores, chances, strict=True):
            if chance:
                if score is None:
                    raise ValueError("a full column was chosen")
                self.moves += chance
                self.kept += chance * (_sign(score) == _sign(best))
                self.perfect += chance * (score == best)

    @property
    def error(self) -> float:
        """The share of moves that lose something."""
        return 1 - self.kept / self.moves if self.moves else 0.0

    def to_dict(self) -> dict[str, float]:
        """As JSON has it."""
        moves = max(self.moves, 1e-9)
        return {"moves": round(self.moves, 6), "kept": self.kept / moves, "perfect": self.perfect / moves}


def grade_games(
    games: Iterable[Game],
    scores: Callable[[Board], Scores],
    size: tuple[int, int, int] = (6, 7, 4),
    on_game: Callable[[], None] | None = None,
) -> dict[str, dict[int, Grades]]:
    """The grades of every player's moves in these games, by ply (stones on the board before the move).

    `scores` is `Solver(...).scores`, or anything that gives every column's score.
    """
    graded: dict[str, dict[int, Grades]] = {}
    known: dict[Board, Scores] = {}
    for game in games:
        board = Board.from_moves(game.opening, *size)
        end = Board.from_moves(game.moves, *size).moves
        for ply in range(board.stones, len(end)):
            after = Board.from_moves(end[: ply + 1], *size)
            if board not in known:
                known[board] = scores(board)
            name = (game.first, game.second)[board.turn - 1]
            chances = [float(column == after.last) for column in range(size[1])]
            graded.setdefault(name, {}).setdefault(ply, Grades()).add(known[board], chances)
            board = after
        if on_game is not None:
            on_game()
    return graded


def total(by_ply: dict[int, Grades]) -> Grades:
    """The grades of all plies together."""
    whole = Grades()
    for one in by_ply.values():
        whole.moves, whole.kept, whole.perfect = (
            whole.moves + one.moves, whole.kept + one.kept, whole.perfect + one.perfect
        )  # fmt: skip
    return whole


def read_set(file: str | os.PathLike[str]) -> list[tuple[Board, list[int | None]]]:
    """Positions with the score of every column, from a line each: `moves score s1 … s7`, x for a full column."""
    found = []
    for number, line in enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 9:
            raise ValueError(f"{file}, line {number}: expected moves, a score and 7 scores, got {line!r}")
        found.append((Board.from_moves(parts[0]), [None if s == "x" else int(s) for s in parts[2:]]))
    return found


def grade_set(
    player: Player, positions: Iterable[tuple[Board, Scores]], on_position: Callable[[], None] | None = None
) -> Grades:
    """The grades of a player on positions with known scores; exact for one that tells its chances (`policy`).

    A player that can `choose_all` is asked about many at a time.
    """
    grades = Grades()
    policy: Any = getattr(player, "policy", None)
    choose_all: Any = getattr(player, "choose_all", None)
    rest = iter(positions)
    while some := list(itertools.islice(rest, 1 if choose_all is None else TOGETHER)):
        boards = [board for board, _ in some]
        if policy is not None:
            chances = [policy(board) for board in boards]
        else:
            chosen = [player.choose(board) for board in boards] if choose_all is None else choose_all(boards)
            chances = [
                [float(column == one) for column in range(board.columns)]
                for board, one in zip(boards, chosen, strict=True)
            ]
        for (_, scores), each in zip(some, chances, strict=True):
            grades.add(scores, each)
            if on_position is not None:
                on_position()
    return grades


def find_sets(folder: str | os.PathLike[str]) -> dict[str, Path]:
    """The six standard sets in a folder."""
    paths = {name: Path(folder) / f"{name}.txt" for name in SETS}
    missing = [path.name for path in paths.values() if not path.is_file()]
    if missing:
        raise ValueError(f"{folder} must hold the six standard sets, but there is no {' and no '.join(missing)}")
    return paths


def bits_of_sets(folder: str | os.PathLike[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions and masks of the six standard sets, for what must not learn from them."""
    boards = [board for file in find_sets(folder).values() for board, _ in read_set(file)]
    position, mask = (np.array([getattr(board, name) for board in boards], np.int64) for name in ("position", "mask"))
    return position, mask


def _sign(score: int) -> int:
    return (score > 0) - (score < 0)
