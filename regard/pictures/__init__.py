"""Pictures of attention, for papers, notebooks and browsers.

Every picture takes plain numbers (NumPy arrays, torch tensors, nested lists) or a `Trace`, and the tokens'
names; it gives a `Picture`, which a notebook shows and `.save("x.png" | ".svg" | ".pdf" | ".html")` writes.
`attention_page` returns an interactive HTML page: all layers and heads, zoom, and the value under the pointer.
Names are loaded when first used, so that matplotlib is imported only when it is needed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
