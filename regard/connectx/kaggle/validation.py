"""Validate a submission by playing it in kaggle-environments, as Kaggle does (needs the extra `kaggle`)."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.connectx.game.board import Board
from regard.connectx.players.agent_file import unpack_agent
from regard.connectx.solver.perfect_solver import Solver
from regard.extras import MissingExtraError

SOLVER_SIZE = (6, 7, 4)  # an exported solver plays perfectly on this board only
WORKER = Path(__file__).with_name("validation_worker.py")
SIZES = ((6, 7, 4), (5, 6, 3))
OPPONENTS = ("itself", "random", "negamax")


@dataclass(frozen=True)
class Match:
    """One episode: the submission's side (1 or 2), Kaggle's status of both sides, the submission's times in seconds.

    `reward` is 1, 0 or −1, or None if the submission failed; `bank` is the rest of Kaggle's 60 s of extra time.
    `fallback` is the number of moves that were not played by the exported player, because it had no answer in time.
    `errors` is the number of the submission's moves that turn a win into a draw or loss, or a draw into a loss; None if
    they are not graded. Only the moves of exported solvers are.
    """

    opponent: str
    side: int
    size: tuple[int, int, int]
    status: str
    reward: int | None
    their_status: str
    moves: int
    first_move: float
    slowest_later: float
    bank: float
    problem: str = ""
    fallback: int = 0
    errors: int | None = None

    @property
    def valid(self) -> bool:
        """Whether Kaggle would accept the submission's moves."""
        return self.status == "DONE"

    @property
    def result(self) -> str:
        """The result as a word: won, drawn or lost; if the match is not valid, its status."""
        if not self.valid or self.reward is None:
            return self.status
        return {1: "won", 0: "drawn", -1: "lost"}[int(self.reward)]


Episode = tuple[str, int, tuple[int, int, int]]  # opponent, side of the submission, board


def plan(games: int = 1, sizes: Sequence[tuple[int, int, int]] = SIZES) -> list[Episode]:
    """Return the episodes of a validation: each opponent, side and board size.

    >>> len(plan())
    10
    """
    return [
        (opponent, side, size)
        for size in sizes
        for opponent in OPPONENTS
        for side in ((1,) if opponent == "itself" else (1, 2))
        for _ in range(games)
    ]


def validate(
    file: str | os.PathLike[str], episodes: Sequence[Episode] | None = None, *, act: float = 2.0, bank: float = 60.0
) -> Iterator[Match]:
    """Play the submission against itself, random and negamax; yield each match when it ends.

    `act` is the time limit of a move in seconds, `bank` the extra time that slower moves of a game share.
    """
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"the submission {str(file)!r} does not exist")
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        if path.name.endswith(".tar.gz"):
            path = unpack_agent(path, Path(folder))
        solver = Solver() if _exported_player(path) == "solver" else None
        worker = _Worker(folder)
        try:
            for opponent, side, size in plan() if episodes is None else episodes:
                other = str(path) if opponent == "itself" else opponent
                agents = [str(path), other] if side == 1 else [other, str(path)]
                answer = worker.play({"agents": agents, "size": size, "act": act, "bank": bank})
                match = _match(opponent, side, size, answer)
                if solver is not None and size == SOLVER_SIZE and match.valid:
                    sides = (0, 1) if opponent == "itself" else (side - 1,)
                    match = replace(match, errors=count_errors(answer["columns"], sides, solver))
                yield match
        finally:
            worker.end()


def count_errors(columns: Sequence[int], sides: Sequence[int], solver: Solver) -> int:
    """Return how many moves of these sides (0: first player, 1: second) turn a win into less, or a draw into a loss.

    >>> solver = Solver(4, 4, 3, table_bits=16)
    >>> count_errors([0, 1, 2], (0,), solver), count_errors([0, 1, 2], (1,), solver)
    (1, 0)
    """
    board, errors = Board(solver.rows, solver.columns, solver.inarow), 0
    for column in columns:
        if board.stones % 2 in sides:
            scores = solver.scores(board)
            best = max(score for score in scores if score is not None)
            played = scores[column]
            assert played is not None
            errors += (played > 0) - (played < 0) < (best > 0) - (best < 0)
        board = board.play(column)
    return errors


def _exported_player(file: Path) -> str | None:
    """Return the name of the player that `regard connectx export` wrote into this file; None for other agents."""
    match = re.search(r"^PLAYER = '(.+)'$", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return None if match is None else match[1]


class _Worker:
    """Process that has imported kaggle-environments; it is restarted if a submission ends it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def play(self, match: dict[str, Any]) -> dict[str, Any]:
        """Play a match and return its result."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.folder
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # the worker's answer gives the reason
            self.process.stdin.write(json.dumps(match) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"ended": True}
        if "missing" in answer:
            raise MissingExtraError("validation", "kaggle-environments", "kaggle")
        if "hung" in answer or "ended" in answer:
            self.end()
        return answer

    def end(self) -> None:
        """Kill the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def _match(opponent: str, side: int, size: tuple[int, int, int], answer: dict[str, Any]) -> Match:
    if "sides" not in answer:
        status, why = ("TIMEOUT", "it hung") if "hung" in answer else ("ERROR", "it ended its process")
        return Match(opponent, side, size, status, None, "DONE", 0, 0.0, 0.0, 0.0, why)
    mine, theirs = answer["sides"][side - 1], answer["sides"][2 - side]
    times = mine["times"] or [0.0]
    problem = answer["problem"]
    if mine["status"] == "INVALID":
        problem = "the agent must return a plain int, the number of a column that is not full"
    elif mine["status"] != "DONE" and not problem:
        problem = "no answer in time" if mine["status"] == "TIMEOUT" else mine["stderr"].strip().rpartition("\n")[2]
    return Match(
        opponent, side, size, mine["status"], mine["reward"], theirs["status"], answer["moves"], times[0],
        max(times[1:], default=0.0), mine["bank"], problem, mine["fallback"],
    )  # fmt: skip
