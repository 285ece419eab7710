"""A layer of one's own, compared with the NumPy reference and checked by the doctor."""

import torch
from torch import nn

import regard


class Attention(nn.Module):
    """Multi-head attention in eight lines."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, H, S, d_k)
        mixed = regard.attend(q, k, v, regard.masks.causal())
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


layer, x = Attention(32, 4), torch.randn(2, 7, 32)
with torch.no_grad(), regard.watch(layer) as seen:
    layer(x)
call = seen.calls[0]
trace = regard.trace(*(t[0].numpy() for t in (call.q, call.k, call.v)), regard.masks.causal())
difference = abs(call.weights()[0].numpy() - trace["weights"].values).max()
print(f"largest difference from the NumPy reference: {difference:.1e}")
print(seen.check(causal=True))
