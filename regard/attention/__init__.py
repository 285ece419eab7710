"""The attention mechanism.

`attend` (`attend_function`) checks q, k, v, a mask of `masks` and a bias of `positions`, and computes attention with
one of the `kernels`. `layers` are the modules built on it, `torch_compat` is a replacement for torch's own layer, and
`streaming_keys` computes attention over keys that arrive in pieces. `reference` is the specification in NumPy, and
`tracing` computes attention as a sequence of named steps. Names are loaded when first used, so that reading a trace
does not import torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
