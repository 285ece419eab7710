"""Listeners that are notified of every call of `attend`; `regard.watch` records calls through them."""

import threading
from collections.abc import Callable
from typing import Any

Listener = Callable[[dict[str, Any]], None]

call_listeners: list[Listener] = []
"""Functions called with the arguments of every outermost call of `attend`, by name, in any thread."""


class _Muted(threading.local):
    """Context in which calls of `attend` in this thread are not reported to the listeners."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


listeners_muted = _Muted()


def report_call(**arguments: Any) -> None:
    """Call every listener with the arguments of a call of attention, unless listeners are muted."""
    if call_listeners and not listeners_muted.depth:
        for listener in tuple(call_listeners):
            listener(arguments)
