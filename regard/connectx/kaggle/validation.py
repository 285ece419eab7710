"""A submission, played in kaggle-environments as Kaggle would (extra: kaggle)."""

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

from regard.connectx.players.agent_file import unpacked

CHILD = Path(__file__).with_name("validation_worker.py")
SIZES = ((6, 7, 4), (5, 6, 3))
OPPONENTS = ("itself", "random", "negamax")


@dataclass(frozen=True)
class Match:
    """One episode: the submission's side (1 or 2), what Kaggle says of both, and the submission's times in seconds.

    `reward` is 1, 0 or −1, None for who failed; `bank` is what is left of the 60 s.
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
        """Whether Kaggle would have nothing to complain of."""
        return self.status == "DONE"

    @property
    def result(self) -> str:
        """won, drawn, lost, or the status."""
        if not self.valid or self.reward is None:
            return self.status
        return {1: "won", 0: "drawn", -1: "lost"}[int(self.reward)]


Episode = tuple[str, int, tuple[int, int, int]]  # opponent, side of the submission, board


def plan(games: int = 1, sizes: Sequence[tuple[int, int, int]] = SIZES) -> list[Episode]:
    """Who is met, on which side, on which board.

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
    """Play the submission against itself, random and negamax; one match after the other, as they end.

    `act` and `bank` are Kaggle's seconds for a move and for all that take longer.
    """
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"there is no file {str(file)!r} to validate")
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        if path.name.endswith(".tar.gz"):
            path = unpacked(path, Path(folder))
        child = _Child(folder)
        try:
            for opponent, side, size in plan() if episodes is None else episodes:
                other = str(path) if opponent == "itself" else opponent
                agents = [str(path), other] if side == 1 else [other, str(path)]
                answer = child.ask({"agents": agents, "size": size, "act": act, "bank": bank})
                yield _match(opponent, side, size, answer)
        finally:
            child.end()


class _Child:
    """The process that has imported kaggle-environments; a new one after a submission that ended it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """What came of a match."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.folder
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # then the child says why
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"ended": True}
        if "missing" in answer:
            raise ValueError(f"this needs kaggle-environments: pip install 'regard[kaggle]' ({answer['missing']})")
        if "hung" in answer or "ended" in answer:
            self.end()
        return answer

    def end(self) -> None:
        """No more matches."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def _match(opponent: str, side: int, size: tuple[int, int, int], answer: dict[str, Any]) -> Match:
    if "sides" not in answer:
        status, why = ("TIMEOUT", "it hung") if "hung" in answer else ("ERROR", "it ended the process that played it")
        return Match(opponent, side, size, status, None, "DONE", 0, 0.0, 0.0, 0.0, why)
    mine, theirs = answer["sides"][side - 1], answer["sides"][2 - side]
    times = mine["times"] or [0.0]
    trouble = answer["problem"]
    if mine["status"] == "INVALID":
        trouble = "an action must be a plain int, the number of a column that is not full"
    elif mine["status"] != "DONE" and not trouble:
        trouble = "no answer in time" if mine["status"] == "TIMEOUT" else mine["stderr"].strip().rpartition("\n")[2]
    return Match(
        opponent, side, size, mine["status"], mine["reward"], theirs["status"], answer["moves"], times[0],
        max(times[1:], default=0.0), mine["bank"], trouble,
    )  # fmt: skip
