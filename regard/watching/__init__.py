"""Watching: the attention inside any PyTorch model, recorded while it runs at its own speed.

`regard.watch(model)` (`watch_context`) intercepts torch functions (`recorder/`). A reader in `readers/` converts the
arguments of each attention function into a `Call`, and the calls form a `Recording`. A call keeps its queries, keys,
mask and bias (`call_inputs`). From these, `exact_weights` computes the weights that are requested and `statistics/` the
entropy, distance and so on of every query, without storing an S×S matrix. `doctor` looks for mistakes in the calls;
`regard.agree` (also there) compares two ways of running a model; `terminal_tables` prints a recording. `named_models`
loads models by name for the command line and the lab.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
