"""Player that runs a Kaggle agent file in its own process, with Kaggle's time limits.

If the agent raises an exception, hangs or returns something that is not a plain int, the player raises a `PlayerError`
with Kaggle's status, which loses the game. An agent that raised or hung gets a new process for its next move; otherwise
one process serves all games, so that imports and compilation happen once.
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
from regard.connectx.players.player import PlayerError
from regard.files import explain_damage

WORKER = Path(__file__).with_name("agent_worker.py")


class AgentFile:
    """Player that calls the last callable of a file: `agent(observation, configuration)`.

    A move may take `act` seconds; longer moves use up a `bank` of seconds for the whole game.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.connectx import Board
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "main.py"
    ...     _ = file.write_text("def agent(observation, configuration): return 2")
    ...     AgentFile(file).choose(Board())
    2
    """

    def __init__(self, file: str | os.PathLike[str], *, act: float = 2.0, bank: float = 60.0) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., AgentFile] | None = None
        path = Path(file)
        if not path.is_file():
            raise ValueError(f"the agent file {str(file)!r} does not exist")
        self.name = str(file)
        self.act, self.bank = act, bank
        if path.name.endswith(".tar.gz"):
            folder = tempfile.TemporaryDirectory(prefix="regard-")
            weakref.finalize(self, folder.cleanup)
            path = unpack_agent(path, Path(folder.name))
        self._path = path.resolve()
        self._left, self._stones = bank, -1

    def choose(self, board: Board) -> int:
        """Return the column to play, or raise a PlayerError."""
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
        self._left -= max(0.0, time.perf_counter() - start - self.act)
        if answer is None or self._left < 0:
            self.close()
            raise PlayerError("TIMEOUT", f"no answer within {self.act:g} s and the rest of {self.bank:g} s extra time")
        if "error" in answer:
            self.close()
            raise PlayerError("ERROR", answer["error"])
        if answer["type"] == "NoneType":
            answer = {"type": "int", "text": "0"}  # Kaggle plays column 0 for None
        if answer["type"] == "float":
            raise PlayerError("ERROR", f"the agent must return a plain int, got a float: {answer['text']}")
        if answer["type"] != "int":
            raise PlayerError("INVALID", f"the agent must return a plain int, got {answer['type']}: {answer['text']}")
        column = int(answer["text"])
        if column not in board.legal:
            raise PlayerError("INVALID", f"column {column} is not legal; legal columns are {board.legal}")
        return column

    def close(self) -> None:
        """Kill the agent's process and its children."""
        if self._end is not None:
            self._end()
        self._process = self._end = None

    def _ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the answer of the agent's process; None if the process does not answer in time."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"error": "the agent's process has ended"}
        received, end = b"", time.perf_counter() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.perf_counter())):
                    return None
                part = os.read(self._process.stdout.fileno(), 65536)
                if not part:
                    return {"error": "the agent's process has ended"}
                received += part
        return json.loads(received)

    def _start(self) -> None:
        variables = ("PATH", "HOME", "TMPDIR", "LANG", "SYSTEMROOT", "NUMBA_CACHE_DIR")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(WORKER), str(self._path)], cwd=self._path.parent, start_new_session=True,
            env={name: os.environ[name] for name in variables if name in os.environ} | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._end = weakref.finalize(self, _kill, self._process)  # also runs when the program ends


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    process.wait()


def unpack_agent(archive: Path, folder: Path) -> Path:
    """Unpack a .tar.gz into the folder and return the path of its main.py."""
    with explain_damage(archive, "a .tar.gz", "pack it again"), tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    main = folder / "main.py"
    if not main.is_file():
        raise ValueError(f"{str(archive)!r} must contain a main.py at the top level, as Kaggle requires")
    return main
