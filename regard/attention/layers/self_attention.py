"""Self-attention with one head, in two implementations: with `nn.Linear`, and with bare parameters.

    Q = x W_q      K = x W_k      V = x W_v            (..., L, D) · (D, d_k) → (..., L, d_k)
    out = softmax(Q Kᵀ / √d_k) V                       (..., L, d_k)

`nn.Linear` stores the transpose: its weight is (d_k, D) and it computes x weightᵀ. This is the only difference
between the two. `to_bare` and `to_linear` convert one into the other.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.types import Device

from regard.attention.attend_function import attend
from regard.attention.integer_arguments import check_integer
from regard.attention.masks import Mask
from regard.attention.positions.position_arguments import check_vectors

MaskLike = Mask | Bool[Tensor, "..."]


class SelfAttention(nn.Module):
    """Self-attention with one head and `nn.Linear` for the three projections.

    d_model     D, the width of x
    d_k         width of the head and of the output; D by default
    bias        whether the projections have a bias
    device, dtype   of the parameters, as in every layer of torch

    >>> layer = SelfAttention(8, d_k=4)
    >>> layer(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 4])
    >>> x = torch.randn(2, 5, 8)
    >>> torch.allclose(layer(x), layer.to_bare()(x), atol=1e-6)
    True
    """

    def __init__(
        self, d_model: int, d_k: int | None = None, *, bias: bool = False, device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.d_model, self.d_k = _widths(self, d_model, d_k)
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.W_q = nn.Linear(self.d_model, self.d_k, **options)
        self.W_k = nn.Linear(self.d_model, self.d_k, **options)
        self.W_v = nn.Linear(self.d_model, self.d_k, **options)

    def reset_parameters(self) -> None:
        """Initialise the projections as nn.Linear does: uniform in ±1/√D."""
        for projection in (self.W_q, self.W_k, self.W_v):
            projection.reset_parameters()

    def forward(
        self, x: Tensor, mask: MaskLike | None = None, *, weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Map x (..., L, D) to (..., L, d_k); with weights=True also return the weights (..., L, L)."""
        check_vectors("SelfAttention", x, self.d_model)
        return _one_head(self.W_q(x), self.W_k(x), self.W_v(x), mask, weights)

    def to_bare(self) -> "BareSelfAttention":
        """Return the layer as a `BareSelfAttention` with a copy of the weights."""
        bias = self.W_q.bias is not None
        bare = BareSelfAttention(self.d_model, self.d_k, bias=bias).to(self.W_q.weight)
        with torch.no_grad():
            for name in "qkv":
                linear = getattr(self, f"W_{name}")
                getattr(bare, f"W_{name}").copy_(linear.weight.T)
                if bias:
                    getattr(bare, f"b_{name}").copy_(linear.bias)
        return bare.train(self.training)


class BareSelfAttention(nn.Module):
    """Self-attention with one head and plain `nn.Parameter` matrices W (D, d_k), for x @ W.

    d_model     D, the width of x
    d_k         width of the head and of the output; D by default
    bias        whether the projections have a bias
    device, dtype   of the parameters, as in every layer of torch

    >>> layer = BareSelfAttention(8, d_k=4)
    >>> layer.W_q.shape, layer.to_linear().W_q.weight.shape        # transposed
    (torch.Size([8, 4]), torch.Size([4, 8]))
    >>> output, weights = layer(torch.zeros(2, 5, 8), weights=True)
    >>> weights.shape
    torch.Size([2, 5, 5])
    """

    def __init__(
        self, d_model: int, d_k: int | None = None, *, bias: bool = False, device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.d_model, self.d_k = _widths(self, d_model, d_k)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.W_q = nn.Parameter(torch.empty(self.d_model, self.d_k, **factory))
        self.W_k = nn.Parameter(torch.empty(self.d_model, self.d_k, **factory))
        self.W_v = nn.Parameter(torch.empty(self.d_model, self.d_k, **factory))
        self.b_q = nn.Parameter(torch.empty(self.d_k, **factory)) if bias else None
        self.b_k = nn.Parameter(torch.empty(self.d_k, **factory)) if bias else None
        self.b_v = nn.Parameter(torch.empty(self.d_k, **factory)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as nn.Linear does: uniform in ±1/√D."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(self.d_model**-0.5), self.d_model**-0.5)

    def forward(
        self, x: Tensor, mask: MaskLike | None = None, *, weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Map x (..., L, D) to (..., L, d_k); with weights=True also return the weights (..., L, L)."""
        check_vectors("BareSelfAttention", x, self.d_model)
        q, k, v = x @ self.W_q, x @ self.W_k, x @ self.W_v
        if self.b_q is not None and self.b_k is not None and self.b_v is not None:
            q, k, v = q + self.b_q, k + self.b_k, v + self.b_v
        return _one_head(q, k, v, mask, weights)

    def to_linear(self) -> SelfAttention:
        """Return the layer as a `SelfAttention` with a copy of the weights."""
        bias = self.b_q is not None
        linear = SelfAttention(self.d_model, self.d_k, bias=bias).to(self.W_q)
        with torch.no_grad():
            for name in "qkv":
                projection = getattr(linear, f"W_{name}")
                projection.weight.copy_(getattr(self, f"W_{name}").T)
                if bias:
                    projection.bias.copy_(getattr(self, f"b_{name}"))
        return linear.train(self.training)

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, d_k={self.d_k}, bias={self.b_q is not None}"


def _widths(layer: nn.Module, d_model: int, d_k: int | None) -> tuple[int, int]:
    name = type(layer).__name__
    d_model = check_integer(f"{name}(d_model)", d_model, 1, "it is the width of x")
    return d_model, d_model if d_k is None else check_integer(f"{name}(d_k)", d_k, 1, "it is the width of the head")


def _one_head(
    q: Float[Tensor, "*b l d"],
    k: Float[Tensor, "*b l d"],
    v: Float[Tensor, "*b l d"],
    mask: MaskLike | None,
    weights: bool,
) -> Float[Tensor, "*b l d"] | tuple[Float[Tensor, "*b l d"], Float[Tensor, "*b l l"]]:
    q, k, v = (x.unsqueeze(-3) for x in (q, k, v))  # (..., 1, L, d_k)
    if isinstance(mask, Tensor) and mask.dim() > 2:
        mask = mask.unsqueeze(-3)  # in (..., L, S) the batch dimension would be taken for a missing head dimension
    if not weights:
        return attend(q, k, v, mask).squeeze(-3)
    out, maps = attend(q, k, v, mask, weights=True)
    return out.squeeze(-3), maps.squeeze(-3)
