"""Submissions played in a Python of their own."""

import json
import subprocess
import sys
from pathlib import Path

from regard.connectx import Board

# A fresh Python that knows nothing of regard: plays, and says what it was given, of which type, in what time.
PLAY = """
import json, sys, time
if sys.argv[2] == "without":
    sys.modules["numba"] = None
names = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), names)
agent = [value for value in names.values() if callable(value)][-1]
class Struct(dict):
    __getattr__ = dict.__getitem__
answers = []
for board, mark, size in json.loads(sys.argv[3]):
    configuration = Struct(rows=size[0], columns=size[1], inarow=size[2], actTimeout=2)
    column = agent(Struct(board=board, mark=mark, step=sum(map(bool, board)), remainingOverageTime=60), configuration)
    answers.append([column, type(column).__name__])
assert "regard" not in sys.modules
print(json.dumps([agent.__name__, answers]))
"""

BOARDS = [
    Board(), Board.from_moves("112233"), Board.from_moves("12131"), Board.from_moves("1212", 4, 5, 3),
    Board.from_moves("5566", 9, 9, 4),
]  # fmt: skip


def answers(file: Path, numba: str, boards: list[Board], folder: Path, notice: str = "") -> list[int]:
    """Return the columns that a submission plays; `notice` is the text at the start of each line on stderr."""
    asked = json.dumps([[board.kaggle(), board.turn, board.shape[:3]] for board in boards])
    result = subprocess.run(
        [sys.executable, "-I", "-c", PLAY, str(file), numba, asked],
        capture_output=True, text=True, cwd=folder, check=True,
    )  # fmt: skip
    name, found = json.loads(result.stdout)
    assert name == "agent"
    assert bool(notice) == bool(result.stderr), result.stderr
    assert all(line.startswith(notice) for line in result.stderr.splitlines())
    assert {kind for _, kind in found} == {"int"}
    return [column for column, _ in found]
