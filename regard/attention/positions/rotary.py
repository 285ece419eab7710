"""Rotary positions: queries and keys turned by an angle that grows with their place.

Channels i and i + r/2 of a head are the two coordinates of a point (the half-split pairing, as Llama; with
`interleaved`, channels 2i and 2i + 1, as GPT-J and the paper). At place p the point is turned by p·θ_i:

    y_i       = x_i cos(p·θ_i) − x_{i+r/2} sin(p·θ_i)
    y_{i+r/2} = x_{i+r/2} cos(p·θ_i) + x_i sin(p·θ_i)            θ_i = base^(−2i/r),  i = 0 … r/2 − 1

The product of two turned points depends on the difference of their places only. r = d_k, or less: then the
other channels stay as they are.
"""

from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.attention.kernels.func_transforms import transformed
from regard.attention.masks.bands import whole
from regard.attention.positions.additive import Placed, Places, check_places, turns


class Rotary(Placed):
    """Rotary positions for queries and keys (..., H, L, d_k); no parameters, any length.

    d_k             width of a head
    base            10000 as published; larger for longer sequences (Llama 3: 500000)
    rotated         r, how many of the d_k channels are turned: the first r; all of them unless given
    interleaved     pair channels 2i and 2i + 1 instead of i and i + r/2; weights trained with one pairing
                    do not fit the other

    `positions` is the place of the first, or the place of each as a tensor (L,) or (..., L), one row a batch
    item. Half-precision inputs are turned in float32.

    >>> rotary = Rotary(4)
    >>> q, k = rotary(torch.ones(1, 2, 4), torch.ones(1, 2, 4))       # one head, places 0 and 1
    >>> q[0]
    tensor([[ 1.0000,  1.0000,  1.0000,  1.0000],
            [-0.3012,  0.9900,  1.3818,  1.0099]])
    >>> later = rotary.rotate(torch.ones(1, 1, 4), positions=1)
    >>> bool((later == q[:, 1:]).all())
    True
    """

    def __init__(
        self, d_k: int, base: float = 10000.0, *, rotated: int | None = None, interleaved: bool = False
    ) -> None:
        super().__init__()
        self.d_k = whole("Rotary(d_k)", d_k, 1, "it is the width of a head")
        self.rotated = self.d_k if rotated is None else whole("Rotary(rotated)", rotated, 0, "it counts channels")
        self.base = float(base)
        self.interleaved = interleaved
        if self.rotated % 2 or self.rotated > self.d_k:
            raise ValueError(
                f"Rotary turns channels in pairs: rotated must be even and at most d_k = {self.d_k}, "
                f"got {self.rotated}; say rotated={min(self.rotated, self.d_k) // 2 * 2}"
            )

    def forward(self, q: Tensor, k: Tensor, positions: Places = 0) -> tuple[Tensor, Tensor]:
        """q (..., H, L, d_k) and k (..., H_kv, L, d_k), both at the same places."""
        if q.shape[-2:] != k.shape[-2:]:
            raise ValueError(
                f"q and k must stand at the same places, got lengths {q.shape[-2]} and {k.shape[-2]} "
                f"({tuple(q.shape)} and {tuple(k.shape)}); turn each by itself with rotate(x, positions)"
            )
        self._check(q, positions)
        self._check(k, positions)
        cos, sin = self._cos_sin(positions, q)
        return self._turn(q, cos, sin), self._turn(k, cos, sin)

    def rotate(self, x: Tensor, positions: Places = 0) -> Tensor:
        """x (..., H, L, d_k), queries or keys alone."""
        self._check(x, positions)
        return self._turn(x, *self._cos_sin(positions, x))

    def _check(self, x: Tensor, positions: Places) -> None:
        if x.dim() < 2 or x.shape[-1] != self.d_k:
            raise ValueError(f"Rotary takes queries and keys of shape (..., H, L, {self.d_k}), got {tuple(x.shape)}")
        check_places(positions, (*x.shape[:-3], x.shape[-2]))

    def _rows(self, places: Shaped[Tensor, "*batch places"]) -> Float[Tensor, "*batch places width"]:
        angles = turns(places, self.rotated // 2, max(self.rotated, 1), self.base)  # (..., L, r/2)
        cos, sin = angles.cos(), angles.sin()
        twice = cos.repeat_interleave(2, -1) if self.interleaved else torch.cat((cos, cos), -1)
        still = cos.new_ones(*cos.shape[:-1], self.d_k - self.rotated)
        return torch.cat((twice, still, sin), -1)  # (..., L, d_k + r/2)

    def _cos_sin(self, positions: Places, x: Tensor) -> tuple[Tensor, Tensor]:
        """A cosine for every channel, 1 for those that stay; a sine for every pair."""
        rows = self._at(positions, x.shape[-2], x)
        if rows.dim() > 2:
            rows = rows.unsqueeze(-3)  # the same for every head
        return rows[..., : self.d_k], rows[..., self.d_k :]

    def _turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if torch.compiler.is_compiling() or transformed():
            return _formula(x, cos, sin, self.interleaved)
        if torch.is_grad_enabled() and x.requires_grad:
            return _turned(x, cos, sin, self.interleaved)
        return _in_place(x, cos, sin, self.interleaved)

    def extra_repr(self) -> str:
        partly = "" if self.rotated == self.d_k else f", rotated={self.rotated}"
        return f"d_k={self.d_k}, base={self.base:g}{partly}" + (", interleaved" if self.interleaved else "")


def _pairs(
    x: Float[Tensor, "*b l d"], half: int, interleaved: bool
) -> tuple[Float[Tensor, "*b l half"], Float[Tensor, "*b l half"]]:
    """Views of the first and of the second coordinates."""
    if interleaved:
        return x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]
    return x[..., :half], x[..., half : 2 * half]


def _formula(
    x: Float[Tensor, "*b l d"],
    cos: Float[Tensor, "*#b l d"],
    sin: Float[Tensor, "*#b l half"],
    interleaved: bool,
) -> Float[Tensor, "*b l d"]:
    """As the docstring says it: for torch.compile, which fuses it, and torch.func, which has no addcmul_."""
    half = sin.shape[-1]
    first, second = _pairs(x, half, interleaved)
    crossed = torch.stack((-second * sin, first * sin), -1 if interleaved else -2).flatten(-2)
    crossed = torch.nn.functional.pad(crossed, (0, x.shape[-1] - 2 * half))
    return (x * cos + crossed).to(x.dtype)


def _in_place(
    x: Float[Tensor, "*b l d"],
    cos: Float[Tensor, "*#b l d"],
    sin: Float[Tensor, "*#b l half"],
    interleaved: bool,
) -> Float[Tensor, "*b l d"]:
    """The same in one new buffer and two passes over it."""
    y = x * cos
    first, second = _pairs(x, sin.shape[-1], interleaved)
    to_first, to_second = _pairs(y, sin.shape[-1], interleaved)
    to_first.addcmul_(second, sin, value=-1)
    to_second.addcmul_(first, sin)
    return y.to(x.dtype)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    turned: Tensor = _Turn.apply(x, cos, sin, interleaved)  # type: ignore[no-untyped-call]  # torch has no type
    return turned


class _Turn(torch.autograd.Function):
    """A turn is undone by the opposite turn, which is also its gradient: nothing of x has to be kept."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
        return _in_place(x, cos, sin, interleaved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, cos, sin, ctx.interleaved = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return _turned(grad, cos, -sin, ctx.interleaved), None, None, None
