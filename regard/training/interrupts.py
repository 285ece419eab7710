"""Ctrl-C and SIGTERM: finish the current step, then stop."""

import contextlib
import signal
import threading
from collections.abc import Iterator


class Interrupted(Exception):
    """Raised when Ctrl-C or SIGTERM stops the training, after a checkpoint has been written."""


@contextlib.contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C (or SIGTERM) sets; a second one raises KeyboardInterrupt.

    Outside the main thread, where Python delivers no signals, the event is never set.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: object) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
