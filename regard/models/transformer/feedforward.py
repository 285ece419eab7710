"""The part of a layer that looks at each token by itself.

relu, gelu      FFN(x) = f(x W_upᵀ + b_up) W_downᵀ + b_down
swiglu          FFN(x) = (silu(g) ∘ u) W_downᵀ + b_down        [g u] = x W_upᵀ + b_up, one product for both
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.transformer.config import Activation


class FeedForward(nn.Module):
    """x (..., D) → (..., D), through `inner` numbers a token.

    >>> import torch
    >>> FeedForward(8, 32, "swiglu")(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, d_model: int, inner: int, activation: Activation, *, bias: bool = True) -> None:
        super().__init__()
        self.activation = activation
        self.up = nn.Linear(d_model, 2 * inner if activation == "swiglu" else inner, bias=bias)
        self.down = nn.Linear(inner, d_model, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform for every matrix by itself, zero biases."""
        for part in self.up.weight.split(self.down.in_features):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.down.weight)
        for linear in (self.up, self.down):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        inner = self.up(x)
        if self.activation == "relu" and not (self.up._forward_hooks or self.up._backward_hooks):
            inner = F.relu_(inner)  # nobody else has it, so it need not be written twice
        else:
            inner = activated(inner, self.activation)
        y: Tensor = self.down(inner)
        return y


def activated(x: Tensor, activation: Activation) -> Tensor:
    """The activation of x; for SwiGLU, of its two halves, which it joins to one."""
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
