"""What attention costs: operations and bytes, predicted from the shapes and measured on the run.

`regard.cost(...)` is a function and `regard.cost` also this room. Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
