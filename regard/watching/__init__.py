"""Watching: the attention inside any PyTorch model, as it runs, at the speed it runs.

`regard.watch(model)` records the attention calls of a model; weights, statistics and checks are computed from
what was recorded, only those asked for, never as an S×S matrix.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
