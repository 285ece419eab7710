"""Client of the search process, so that the page never waits for a search.

A search is compiled code: it holds Python's global lock and cannot be interrupted. It therefore runs in a process of
its own (search_worker.py), which takes one question at a time and answers line by line. The process is killed
when the answer is no longer needed or the time is over; the lines sent until then remain valid.
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

COMMAND = [sys.executable, "-m", "regard.lab.models.search_worker"]
POLL_SECONDS = 0.1

OnLine = Callable[[dict[str, Any] | None], object]


class SearchProcess:
    """Sends questions to the search process, which is started when needed and restarted after it was killed.

    >>> search, lines = SearchProcess(), []
    >>> question = {"what": "truth", "moves": "112233", "size": [6, 7, 4]}
    >>> search.ask(question, 60, lambda line: line and lines.append(line))
    True
    >>> {line["column"]: line["score"] for line in lines}[3]  # column 3 wins at once
    18
    >>> search.close()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._lines: Queue[dict[str, Any] | None] = Queue()
        atexit.register(self.close)

    def ask(self, question: Mapping[str, Any], seconds: float, on_line: OnLine) -> bool:
        """Send a question, pass each line of the answer to `on_line`, and return whether it was complete in time.

        on_line     called with each line, and regularly with None; an exception that it raises ends the search
        """
        with self._lock:
            try:
                self._send({**question, "seconds": seconds})
                return self._receive(seconds, on_line)
            except BaseException:
                self._restart()
                raise

    def close(self) -> None:
        """Kill the process if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _receive(self, seconds: float, on_line: OnLine) -> bool:
        end: float | None = None  # set when the search begins, since starting and compiling may take longer
        while True:
            try:
                line = self._lines.get(timeout=POLL_SECONDS)
            except Empty:
                on_line(None)
                if end is not None and time.monotonic() > end:
                    self._restart()
                    return False
                continue
            if line is None:
                raise RuntimeError("the search process has ended unexpectedly; see the terminal of the lab")
            if "begun" in line:
                end = time.monotonic() + seconds
            elif "end" in line:
                return bool(line["end"])
            elif "failed" in line:
                raise ValueError(line["failed"])
            else:
                on_line(line)

    def _send(self, question: Mapping[str, Any]) -> None:
        if self._process is None or self._process.poll() is not None:
            self._restart()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()

    def _restart(self) -> None:
        """Kill the process and start a new one, so that it is loaded before the next question."""
        self.close()
        self._lines = Queue()
        # stderr is inherited, so that the traceback of a defect appears in the terminal of the lab.
        self._process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=_read_lines, args=[self._process.stdout, self._lines], daemon=True).start()


def _read_lines(pipe: Any, lines: Queue[dict[str, Any] | None]) -> None:
    try:
        for line in pipe:
            lines.put(json.loads(line))
    except ValueError:
        pass  # the pipe was closed, or the process was killed in the middle of a line
    lines.put(None)
