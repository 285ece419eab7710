"""Listeners that are notified of every call of `attend`; `regard.watch` records calls through them."""

import threading
from collections.abc import Callable
from typing import Any

Listener = Callable[[dict[str, Any]], None]

call_listeners: list[Listener] = []
"""Functions called after every outermost call of `attend`, in any thread, with its arguments and `output` by name."""


class _Muted(threading.local):
    """Context in which calls of `attend` in this thread are not reported to the listeners."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


listeners_muted = _Muted()


Changer = Callable[[dict[str, Any], Callable[[], Any]], Any]

call_changers: list[Changer] = []
"""Functions that may replace the result of a call of `attend`, given its arguments and a function that returns its
output unchanged; `regard.intervene` adds them."""


def changed_result(output: Callable[[], Any], **arguments: Any) -> Any:
    """Return the result (output, log-sum-exp, weights) of a call that is changed; None if none of the changers does."""
    for change in reversed(call_changers):
        if (result := change(arguments, output)) is not None:
            return result
    return None


def report_call(**arguments: Any) -> None:
    """Call every listener with the arguments and the output of a call of attention, unless listeners are muted."""
    if call_listeners and not listeners_muted.depth:
        for listener in tuple(call_listeners):
            listener(arguments)
