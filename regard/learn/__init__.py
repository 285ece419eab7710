"""The course: cards to be asked by, drills to compute by hand, a diagram to put together, and what was learned.

Everything a learner reads is in English and Chinese. Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
