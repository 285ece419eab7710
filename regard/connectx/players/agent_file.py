"""A Kaggle agent from a file, played in a process of its own, with Kaggle's clock.

What the agent does wrong (it raises, hangs, returns something that is no plain int) becomes a `Forfeit` that says
what Kaggle would say, and the match goes on. A new process starts for the next game after that; otherwise one
process serves all games, so that imports and compilation are paid once.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.connectx.game.board import Board
from regard.connectx.players.registry import Forfeit

CHILD = Path(__file__).with_name("agent_worker.py")


class AgentFile:
    """A player that asks the last callable of a file: `agent(observation, configuration)`.

    A move may take `act` seconds; what is more is taken from a `bank` that has to last for the game.
    """

    def __init__(self, file: str | os.PathLike[str], *, act: float = 2.0, bank: float = 60.0) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., AgentFile] | None = None
        path = Path(file)
        if not path.is_file():
            raise ValueError(f"there is no file {str(file)!r} to play")
        self.name = str(file)
        self.act, self.bank = act, bank
        if path.name.endswith(".tar.gz"):
            folder = tempfile.TemporaryDirectory(prefix="regard-")
            weakref.finalize(self, folder.cleanup)
            path = unpacked(path, Path(folder.name))
        self._path = path.resolve()
        self._left, self._stones = bank, -1

    def choose(self, board: Board) -> int:
        """The column to play, or a Forfeit."""
        if board.stones <= self._stones or board.stones < 2:
            self._left = self.bank  # a new game
        self._stones = board.stones
        observation = {
            "remainingOverageTime": self._left, "step": board.stones, "board": board.kaggle(), "mark": board.turn
        }  # fmt: skip
        configuration = {
            "episodeSteps": 1000, "actTimeout": self.act, "runTimeout": 1200, "columns": board.columns,
            "rows": board.rows, "inarow": board.inarow, "agentTimeout": 60, "timeout": self.act,
        }  # fmt: skip
        start = time.perf_counter()
        answer = self._ask({"observation": observation, "configuration": configuration}, self.act + self._left)
        taken = time.perf_counter() - start
        self._left -= max(0.0, taken - self.act)
        if answer is None or self._left < 0:
            self.close()
            raise Forfeit("TIMEOUT", f"no answer within {self.act:g} s and what was left of the {self.bank:g} s bank")
        if "error" in answer:
            self.close()
            raise Forfeit("ERROR", answer["error"])
        if answer["type"] == "NoneType":
            answer = {"type": "int", "text": "0"}  # nothing at all is column 0 for Kaggle
        if answer["type"] == "float":
            raise Forfeit("ERROR", f"the agent must return a plain int, got a float: {answer['text']}")
        if answer["type"] != "int":
            raise Forfeit("INVALID", f"the agent must return a plain int, got {answer['type']}: {answer['text']}")
        column = int(answer["text"])
        if column not in board.legal:
            raise Forfeit("INVALID", f"column {column} cannot be played, these can: {board.legal}")
        return column

    def close(self) -> None:
        """End the agent's process, and what it may have started."""
        if self._end is not None:
            self._end()
        self._child = self._end = None

    def _ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """The child's answer; None when it does not come in time."""
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._start()
        assert self._child is not None
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(question).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            return {"error": "the agent's process has ended"}
        received, end = b"", time.perf_counter() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.perf_counter())):
                    return None
                part = os.read(self._child.stdout.fileno(), 65536)
                if not part:
                    return {"error": "the agent's process has ended"}
                received += part
        answer: dict[str, Any] = json.loads(received)
        return answer

    def _start(self) -> None:
        kept = ("PATH", "HOME", "TMPDIR", "LANG", "SYSTEMROOT", "NUMBA_CACHE_DIR")
        self._child = subprocess.Popen(
            [sys.executable, "-I", str(CHILD), str(self._path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._path.parent,
            env={name: os.environ[name] for name in kept if name in os.environ} | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._end = weakref.finalize(self, _ended, self._child)  # when the program ends, too


def _ended(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    child.wait()


def unpacked(archive: Path, folder: Path) -> Path:
    """The main.py of a .tar.gz, unpacked into the folder."""
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise ValueError(f"{str(archive)!r} cannot be unpacked: {error}") from None
    main = folder / "main.py"
    if not main.is_file():
        raise ValueError(f"{str(archive)!r} must hold a main.py at its top, as Kaggle asks")
    return main
