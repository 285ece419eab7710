"""Ctrl-C, SIGTERM and SIGHUP: finish the current step, then stop."""

import contextlib
import signal
import threading
from collections.abc import Iterator


class Interrupted(Exception):
    """Raised when Ctrl-C, SIGTERM or SIGHUP stops the training, after a checkpoint has been written."""


@contextlib.contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C, SIGTERM or SIGHUP sets; a second one of the first two raises
    KeyboardInterrupt.

    Outside the main thread, where Python delivers no signals, the event is never set.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    hangup = getattr(signal, "SIGHUP", None)  # Windows has none

    def handle(number: int, frame: object) -> None:
        if event.is_set() and number != hangup:  # a closed terminal may send several
            raise KeyboardInterrupt
        event.set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:  # nohup ignores it
        numbers.append(hangup)
    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
