"""Attention over padded, packed and cached inputs, with one mask each."""

import torch

import regard
from regard import masks

q = torch.randn(2, 4, 6, 16)  # 2 texts, 4 heads, 6 tokens, width 16

out = regard.attend(q, q, q, masks.causal() & masks.padding([6, 4]))
print("padded batch:", tuple(out.shape))

documents = masks.causal() & masks.documents(torch.tensor([0, 0, 0, 1, 1, 1]))
out, weights = regard.attend(q, q, q, documents, weights=True)
print("weight from document 2 on document 1:", weights[:, :, 3:, :3].max().item())

cached = torch.randn(2, 4, 10, 16)  # 10 keys, of which the last 6 belong to the queries
out, weights = regard.attend(q, cached, cached, masks.causal() & masks.window(keys=4), weights=True)
print("keys that the last query sees:", weights[0, 0, -1].nonzero().flatten().tolist())
