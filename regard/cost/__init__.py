"""What attention costs: operations and bytes, predicted from the shapes and measured on the run.

`regard.cost(...)` is a function and `regard.cost` also this room. Names are loaded when first used.
"""

import sys
from types import ModuleType
from typing import Any

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Room(ModuleType):
    """`import regard.cost` may put this module where `regard.cost(...)` is looked up: so it can be called, too.

    (Newer versions of lazy_loader keep the function in its place, older ones do not.)
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        from regard.cost.counting import cost

        return cost(*args, **options)


sys.modules[__name__].__class__ = _Room
