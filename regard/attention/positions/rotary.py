"""Rotary positions (RoPE): queries and keys are rotated by an angle proportional to their position.

Channels i and i + r/2 of a head are the coordinates of a point in the plane (half-split pairing, as in Llama; with
`interleaved`, channels 2i and 2i + 1, as in GPT-J and the paper). At position p the point is rotated by p·θ_i:

    y_i       = x_i cos(p·θ_i) − x_{i+r/2} sin(p·θ_i)
    y_{i+r/2} = x_{i+r/2} cos(p·θ_i) + x_i sin(p·θ_i)            θ_i = base^(−2i/r),  i = 0 … r/2 − 1

The dot product of two rotated vectors depends on the difference of their positions only. r is d_k or less; the other
channels are not changed.
"""

from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.types import Device

from regard.attention.integer_arguments import check_integer
from regard.attention.kernels.private_torch_operators import in_forward_mode, in_func_transform, in_graph
from regard.attention.positions.position_arguments import Positions, check_positions
from regard.attention.positions.position_table import PositionTable, angles


class Rotary(PositionTable):
    """Rotary positions for queries and keys (..., H, L, d_k); works for any length and has no parameters.

    d_k             width of a head
    base            10000 as published; larger for longer sequences (Llama 3: 500000)
    rotated         r, the number of channels to rotate: the first r; all d_k by default
    interleaved     pair channels 2i and 2i + 1 instead of i and i + r/2; weights trained with one pairing
                    do not fit the other
    device, dtype   accepted as in every layer; without effect, because the table follows the input

    `positions` is the position of the first vector, or the position of each as a tensor (L,) or (..., L), one row per
    batch item. Half-precision inputs are rotated in float32.

    >>> rotary = Rotary(4)
    >>> q, k = rotary(torch.ones(1, 2, 4), torch.ones(1, 2, 4))       # one head, positions 0 and 1
    >>> q[0]
    tensor([[ 1.0000,  1.0000,  1.0000,  1.0000],
            [-0.3012,  0.9900,  1.3818,  1.0099]])
    >>> later = rotary.rotate(torch.ones(1, 1, 4), positions=1)
    >>> bool((later == q[:, 1:]).all())
    True
    """

    def __init__(
        self, d_k: int, base: float = 10000.0, *, rotated: int | None = None, interleaved: bool = False,
        device: Device = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(device, dtype)
        self.d_k = check_integer("Rotary(d_k)", d_k, 1, "it is the width of a head")
        self.rotated = d_k if rotated is None else check_integer("Rotary(rotated)", rotated, 0, "it counts channels")
        self.base = float(base)
        self.interleaved = interleaved
        if self.rotated % 2 or self.rotated > self.d_k:
            raise ValueError(
                f"Rotary rotates channels in pairs: rotated must be even and at most d_k = {self.d_k}, "
                f"got {self.rotated}; use rotated={min(self.rotated, self.d_k) // 2 * 2}"
            )

    def forward(self, q: Tensor, k: Tensor, positions: Positions = 0) -> tuple[Tensor, Tensor]:
        """Rotate q (..., H, L, d_k) and k (..., H_kv, L, d_k), both at the same positions."""
        if q.shape[-2:] != k.shape[-2:]:
            raise ValueError(
                f"q and k must be at the same positions, got lengths {q.shape[-2]} and {k.shape[-2]} "
                f"({tuple(q.shape)} and {tuple(k.shape)}); rotate each separately with rotate(x, positions)"
            )
        self._check(q, positions)
        self._check(k, positions)
        cos, sin = self._cos_sin(positions, q)
        return self._rotate(q, cos, sin), self._rotate(k, cos, sin)

    def rotate(self, x: Tensor, positions: Positions = 0) -> Tensor:
        """Rotate queries or keys x (..., H, L, d_k) alone."""
        self._check(x, positions)
        return self._rotate(x, *self._cos_sin(positions, x))

    def _check(self, x: Tensor, positions: Positions) -> None:
        if x.dim() < 2 or x.shape[-1] != self.d_k:
            raise ValueError(f"Rotary takes queries and keys of shape (..., H, L, {self.d_k}), got {tuple(x.shape)}")
        check_positions(positions, (*x.shape[:-3], x.shape[-2]))

    def _rows(self, positions: Shaped[Tensor, "*batch n"]) -> Float[Tensor, "*batch n width"]:
        x = angles(positions, self.rotated // 2, max(self.rotated, 1), self.base)  # (..., L, r/2)
        cos, sin = x.cos(), x.sin()
        cos_of_channels = cos.repeat_interleave(2, -1) if self.interleaved else torch.cat((cos, cos), -1)
        unrotated = cos.new_ones(*cos.shape[:-1], self.d_k - self.rotated)
        return torch.cat((cos_of_channels, unrotated, sin), -1)  # (..., L, d_k + r/2)

    def _cos_sin(self, positions: Positions, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return a cosine for every channel (1 if it is not rotated) and a sine for every pair."""
        rows = self._rows_at(positions, x.shape[-2], x)
        if rows.dim() > 2:
            rows = rows.unsqueeze(-3)  # one more dimension: all heads have the same factors
        return rows[..., : self.d_k], rows[..., self.d_k :]

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if in_graph(x) or in_func_transform() or in_forward_mode():
            return _rotate_functional(x, cos, sin, self.interleaved)
        if torch.is_grad_enabled() and x.requires_grad:
            return _rotate_with_gradient(x, cos, sin, self.interleaved)
        return _rotate_in_one_buffer(x, cos, sin, self.interleaved)

    def extra_repr(self) -> str:
        rotated = "" if self.rotated == self.d_k else f", rotated={self.rotated}"
        return f"d_k={self.d_k}, base={self.base:g}{rotated}" + (", interleaved" if self.interleaved else "")


def _pairs(
    x: Float[Tensor, "*b l d"], half: int, interleaved: bool
) -> tuple[Float[Tensor, "*b l half"], Float[Tensor, "*b l half"]]:
    """Return views of the first and of the second coordinates."""
    if interleaved:
        return x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]
    return x[..., :half], x[..., half : 2 * half]


def _rotate_functional(
    x: Float[Tensor, "*b l d"], cos: Float[Tensor, "*#b l d"], sin: Float[Tensor, "*#b l half"], interleaved: bool
) -> Float[Tensor, "*b l d"]:
    """Rotate without in-place operations: for torch.compile, which fuses it, and torch.func, which lacks addcmul_."""
    half = sin.shape[-1]
    first, second = _pairs(x, half, interleaved)
    crossed = torch.stack((-second * sin, first * sin), -1 if interleaved else -2).flatten(-2)
    crossed = torch.nn.functional.pad(crossed, (0, x.shape[-1] - 2 * half))
    return (x * cos + crossed).to(x.dtype)


def _rotate_in_one_buffer(
    x: Float[Tensor, "*b l d"], cos: Float[Tensor, "*#b l d"], sin: Float[Tensor, "*#b l half"], interleaved: bool
) -> Float[Tensor, "*b l d"]:
    """Rotate with one new buffer and two passes over it."""
    y = x * cos
    first, second = _pairs(x, sin.shape[-1], interleaved)
    to_first, to_second = _pairs(y, sin.shape[-1], interleaved)
    to_first.addcmul_(second, sin, value=-1)
    to_second.addcmul_(first, sin)
    return y.to(x.dtype)


def _rotate_with_gradient(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    rotated: Tensor = _Rotation.apply(x, cos, sin, interleaved)  # type: ignore[no-untyped-call]  # untyped in torch
    return rotated


class _Rotation(torch.autograd.Function):
    """Rotation as an autograd function. Its gradient is the inverse rotation, so x need not be saved."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
        return _rotate_in_one_buffer(x, cos, sin, interleaved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, cos, sin, ctx.interleaved = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return _rotate_with_gradient(grad, cos, -sin, ctx.interleaved), None, None, None
