"""Environments for training: vectorized (NumPy), Gymnasium and PettingZoo.

`VectorEnv` plays many games at once and needs nothing but NumPy and numba. `ConnectX` (Gymnasium) and `ConnectXAec`
(PettingZoo) need the extra `games`. Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
