"""regard as an attention implementation of Hugging Face transformers: `attn_implementation="regard"`.

`register` (`registration`) adds two functions to transformers. `mask_creation` is called once per forward pass and
returns a mask of `regard.masks` for the mask functions of transformers (`mask_functions`), wrapped in a tensor that
creates its L×S booleans only if a model reads them (`lazy_tensor`). `attention_function` is called by every attention
module: it calls `regard.attend` and returns the weights as a tensor that is computed when it is read (`lazy_weights`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
