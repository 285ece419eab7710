"""Validate a submission by playing it in kaggle-environments, as Kaggle does (needs the extra `kaggle`)."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.connectx.players.agent_file import unpack_agent

WORKER = Path(__file__).with_name("validation_worker.py")
SIZES = ((6, 7, 4), (5, 6, 3))
OPPONENTS = ("itself", "random", "negamax")


@dataclass(frozen=True)
class Match:
    """One episode: the submission's side (1 or 2), Kaggle's status of both sides, the submission's times in seconds.

    `reward` is 1, 0 or −1, or None if the submission failed; `bank` is the rest of Kaggle's 60 s of extra time.
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
        worker = _Worker(folder)
        try:
            for opponent, side, size in plan() if episodes is None else episodes:
                other = str(path) if opponent == "itself" else opponent
                agents = [str(path), other] if side == 1 else [other, str(path)]
                answer = worker.play({"agents": agents, "size": size, "act": act, "bank": bank})
                yield _match(opponent, side, size, answer)
        finally:
            worker.end()


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
            raise ValueError(f"validate needs kaggle-environments: pip install 'regard[kaggle]' ({answer['missing']})")
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
        max(times[1:], default=0.0), mine["bank"], problem,
    )  # fmt: skip
