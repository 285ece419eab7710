"""Training: the loop, checkpoints, metrics, tokenizers, data sets and the tasks translate, language and masked.

`load("phrases")` gives a trained model with its tokenizer, ready to use. Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
