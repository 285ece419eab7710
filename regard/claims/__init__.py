"""Claims about attention as experiments: the claim, what is done, the figures, and the verdict a rule makes of them.

Every experiment is one file in `experiments/`. Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
