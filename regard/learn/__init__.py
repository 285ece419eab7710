"""The course: exercises with a grader that names the mistake, drills by hand, cards, a diagram, and what was learned.

An exercise is a folder under `exercises/`; `grade` runs a learner's code in a process of its own and says what is wrong
with it. A topic of cards is a file under `cards/`. Everything a learner reads is in English and Chinese. Names are
loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
