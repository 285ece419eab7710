"""Textbook claims about attention, tested by experiments.

Each experiment is one file in `experiments/`, or in `experiments/computed/` if it trains no model, with its texts and
settings in `experiments/texts/NAME.toml`. `run` measures it part by part and writes rows to a result file
(`result.py`); the claim's `judge` computes a verdict with its figures from the rows, and its `draw` a chart
(`charts/`). `write_report` makes docs/claims.md from the stored results. `statistics/` computes intervals and
the verdict from statements (`statements.py`), `tasks/` has the small models and training tasks that experiments share.
Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
