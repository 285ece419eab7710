"""Feed-forward sublayer, applied to each token separately.

relu, gelu      FFN(x) = f(x W_upᵀ + b_up) W_downᵀ + b_down
swiglu          FFN(x) = (silu(g) ∘ u) W_downᵀ + b_down        [g u] = x W_upᵀ + b_up, one product for both
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.types import Device

from regard.models.transformer.config import Activation


class FeedForward(nn.Module):
    """x (..., D) → (..., D), with `inner` hidden units.

    >>> FeedForward(8, 32, "swiglu")(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self, d_model: int, inner: int, activation: Activation, *, bias: bool = True, device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.activation = activation
        self.up = nn.Linear(d_model, 2 * inner if activation == "swiglu" else inner, **options)
        self.down = nn.Linear(inner, d_model, **options)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise every matrix Xavier-uniform and every bias with zeros."""
        for part in self.up.weight.split(self.down.in_features):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.down.weight)
        for linear in (self.up, self.down):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        inner = self.up(x)
        if self.activation == "relu" and not (self.up._forward_hooks or self.up._backward_hooks):
            inner = F.relu_(inner)  # in place: without hooks no other code has the tensor
        else:
            inner = apply_activation(inner, self.activation)
        return self.down(inner)


def apply_activation(x: Tensor, activation: Activation) -> Tensor:
    """Return the activation of x; SwiGLU multiplies silu of the first half by the second half."""
    match activation:
        case "relu":
            return F.relu(x)
        case "gelu":
            return F.gelu(x)
        case "gelu_tanh":
            return F.gelu(x, approximate="tanh")
        case "swiglu":
            gate, up = x.chunk(2, -1)
            return F.silu(gate) * up
