"""The course: graded exercises, drills by hand, interview cards, a diagram, and the learner's progress.

`exercise` reads the exercises, one folder each under `exercises/`. `grader` runs a learner's code on the cases of an
exercise in a separate process (`sandbox`) and returns a `Verdict` that names the mistake. `drills` generates
calculations by hand and grades their steps. `cards` holds interview questions, their spaced repetition and the mock
interview. `diagram` checks a diagram of attention assembled by the learner. `progress` stores all results in one file,
and `mastery_checklist` summarizes them. Every text is in English and Chinese. Names are loaded when first used.
"""

import lazy_loader

from regard.extras import require

require("lab", "the course", "fsrs", "platformdirs")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
