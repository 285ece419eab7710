"""The course: exercises, a grader that names the mistake, and a fence around a learner's code.

An exercise is a folder under `exercises/`; `grade` runs a learner's code in a process of its own and says what
is wrong with it, in English and Chinese. Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
