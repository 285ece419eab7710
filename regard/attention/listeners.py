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
