"""Training of text models: translation, language models and masked language models.

`make_run_config` describes a run: task, data, model and settings. `train` reads the data (`data/`), trains a tokenizer,
builds the model (`run_config`), and runs the training loop (`loop`) with the supervised algorithm (`supervised`); the
loop writes metrics, checkpoints and the best model into the folder of the run. `load("phrases")` returns such a run,
with `generate` and `alignment`. The loop, settings, checkpoints, metrics and ranks are also used by
`regard.connectx.training`. Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
