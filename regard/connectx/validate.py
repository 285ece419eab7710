"""A submission, played in kaggle-environments as Kaggle would (extra: kaggle)."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.connectx.agent_file import unpacked

CHILD = Path(__file__).with_name("validate_child.py")
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


def plan(
    games: int = 1, sizes: tuple[tuple[int, int, int], ...] = SIZES
) -> list[tuple[str, int, tuple[int, int, int]]]:
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
    file: str | os.PathLike[str], matches: list[tuple[str, int, tuple[int, int, int]]] | None = None
) -> Iterator[Match]:
    """Play the submission against itself, random and negamax; one match after the other, as they end."""
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"there is no file {str(file)!r} to validate")
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        if path.name.endswith(".tar.gz"):
            path = unpacked(path, Path(folder))
        child = subprocess.Popen(
            [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
        )
        try:
            for opponent, side, size in plan() if matches is None else matches:
                other = str(path) if opponent == "itself" else opponent
                agents = [str(path), other] if side == 1 else [other, str(path)]
                yield _match(opponent, side, size, _asked(child, {"agents": agents, "size": size}))
        finally:
            child.kill()
            child.communicate()


def _asked(child: "subprocess.Popen[str]", question: dict[str, Any]) -> dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json.dumps(question) + "\n")
        child.stdin.flush()
    except BrokenPipeError:
        pass  # the child has said why
    line = child.stdout.readline()
    if not line:
        raise ValueError("the submission ended the whole process that played it (os._exit, or a crash)")
    answer: dict[str, Any] = json.loads(line)
    if "missing" in answer:
        raise ValueError(f"this needs kaggle-environments: pip install 'regard[kaggle]' ({answer['missing']})")
    return answer


def _match(opponent: str, side: int, size: tuple[int, int, int], answer: dict[str, Any]) -> Match:
    mine, theirs = answer["sides"][side - 1], answer["sides"][2 - side]
    times = mine["times"] or [0.0]
    trouble = answer["problem"] or ("" if mine["status"] == "DONE" else mine["stderr"].strip().rpartition("\n")[2])
    return Match(
        opponent, side, size, mine["status"], mine["reward"], theirs["status"], answer["moves"], times[0],
        max(times[1:], default=0.0), mine["bank"], trouble,
    )  # fmt: skip
