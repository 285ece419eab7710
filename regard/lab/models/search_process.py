"""A process that thinks about boards, so that the page never waits for it.

Search is machine code: while it runs no other thread does, and it cannot be interrupted. So it runs in a process of its
own, which is asked one question at a time, answers line by line as it finds things out, and is simply ended when the
answer is no longer wanted or the time is over. What it had found out by then has been told.
"""

import atexit
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, Queue
from typing import Any

CHILD = [sys.executable, "-m", "regard.lab.models.search_worker"]
TICK = 0.1  # seconds between two looks at the clock and at whether somebody still wants to know

Told = Callable[[dict[str, Any] | None], object]


class Thinker:
    """Asks the process, which is started when it is first needed, and again after it had to be ended.

    >>> thinker, found = Thinker(), []
    >>> question = {"what": "truth", "moves": "112233", "size": [6, 7, 4]}
    >>> thinker.ask(question, 60, lambda line: line and found.append(line))
    True
    >>> {line["column"]: line["score"] for line in found}[3]  # completes a line
    18
    >>> thinker.close()
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._lines: Queue[dict[str, Any] | None] = Queue()
        atexit.register(self.close)

    def ask(self, question: Mapping[str, Any], seconds: float, told: Told) -> bool:
        """Ask, and hand on every line that comes; whether it came to its end within the time.

        told        called with each line, and every now and then with None; what it raises ends the thinking
        """
        with self._turn:
            try:
                self._send({**question, "seconds": seconds})
                return self._follow(seconds, told)
            except BaseException:
                self._again()
                raise

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _follow(self, seconds: float, told: Told) -> bool:
        end: float | None = None  # the clock runs from when it begins: it may have to be started and compiled first
        while True:
            try:
                line = self._lines.get(timeout=TICK)
            except Empty:
                told(None)
                if end is not None and time.monotonic() > end:
                    self._again()
                    return False
                continue
            if line is None:
                raise RuntimeError("the process that thinks about boards has ended")
            if "begun" in line:
                end = time.monotonic() + seconds
            elif "end" in line:
                return bool(line["end"])
            elif "failed" in line:
                raise ValueError(line["failed"])
            else:
                told(line)

    def _send(self, question: Mapping[str, Any]) -> None:
        if self._process is None or self._process.poll() is not None:
            self._again()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()

    def _again(self) -> None:
        """End the process and start another, which gets ready while nobody asks."""
        self.close()
        self._lines = Queue()
        self._process = subprocess.Popen(
            CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        threading.Thread(target=_read, args=[self._process.stdout, self._lines], daemon=True).start()


def _read(pipe: Any, lines: Queue[dict[str, Any] | None]) -> None:
    try:
        for line in pipe:
            lines.put(json.loads(line))
    except ValueError:
        pass  # the pipe was closed, or the process ended in the middle of a line
    lines.put(None)
