"""Head atlas: what each head of a model does, from test inputs, confirmed by ablating the head.

`test_inputs` makes repeated random tokens, duplicates and needles; `model_runs` runs a model on them; `detectors`
scores the attention of each head; `confirmation` ablates the heads that have a label; `atlas` has `regard.atlas`.
"""
