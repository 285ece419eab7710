"""Watching: the attention inside any PyTorch model, as it runs, at the speed it runs.

`regard.watch(model)` records the attention calls of a model; weights, statistics and checks are computed from
what was recorded, only those asked for, never as an S×S matrix.
"""

import sys
from types import ModuleType
from typing import Any

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Room(ModuleType):
    """`regard.watch` is this room and also the function that everyone comes for."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from regard.watch.recording import watch

        return watch(*arguments, **options)


sys.modules[__name__].__class__ = _Room
