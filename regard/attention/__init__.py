"""The mechanism of attention.

`reference` is the specification in NumPy, `online` the same in tiles, `trace` the same one named step after
another. Names are loaded when first used, so that reading a trace does not wait for torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
