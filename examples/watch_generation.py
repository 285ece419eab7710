"""Watch a model while it generates: one call per module for prompt and continuation together."""

import torch

import regard
from regard import models

torch.manual_seed(0)
config = models.DecoderConfig(vocabulary=50, d_model=64, heads=4, layers=2, context=64)
model = models.Decoder(config).eval()

with torch.no_grad(), regard.watch(model) as seen:
    models.generate(model, torch.tensor([[5, 6, 7, 8]]), new_tokens=12)

whole = seen.generation()
for call in whole.calls:
    print(call)
print(whole.table().row_count, "heads")
