"""Positions that are added to the vectors: sinusoidal and learned.

Attention itself does not know the order of its keys. The first way to tell it is to add, to the vector at
place p, a vector that says p:

    P[p, 2i] = sin(p / base^(2i/D))        P[p, 2i+1] = cos(p / base^(2i/D))        base = 10000

An odd width D ends with a sine. `rotary` and `alibi` are the other ways.
"""

from abc import abstractmethod

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from regard.attention.kernels.func_transforms import transformed
from regard.attention.masks.bands import whole

Places = int | Shaped[Tensor, "*batch places"]  # the place of the first, or the place of each

MOST_ROWS = 1 << 16  # places further out are computed each time, or one far token would fill the memory


def sinusoidal(
    length: int,
    d_model: int,
    *,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "length d_model"]:
    """The table P of sines and cosines, one row a place; computed in float64 and rounded once.

    >>> sinusoidal(2, 3)
    tensor([[0.0000, 1.0000, 0.0000],
            [0.8415, 0.5403, 0.0022]])
    """
    length = whole("sinusoidal(length)", length, 0, "it counts places")
    d_model = whole("sinusoidal(d_model)", d_model, 1, "it is the width of a vector")
    return _sinusoids(torch.arange(length, device=device), d_model, base).to(dtype)


def _sinusoids(
    places: Shaped[Tensor, "*batch places"], d_model: int, base: float
) -> Float[Tensor, "*batch places d_model"]:
    angles = turns(places, -(-d_model // 2), d_model, base)  # (..., L, ⌈D/2⌉)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :d_model]


def turns(
    places: Shaped[Tensor, "*batch places"], count: int, width: int, base: float
) -> Float[Tensor, "*batch places count"]:
    """The angles p / base^(2i/width), i < count, in float64: at place 100,000 float32 is off by 0.004."""
    wide = torch.float32 if places.device.type == "mps" else torch.float64
    rates = base ** (torch.arange(count, dtype=wide, device=places.device) * (-2 / width))
    return places.to(wide)[..., None] * rates


class Placed(nn.Module):
    """A module with a table that has one row a place, computed when needed and kept.

    The table is no buffer on purpose: `.half()` would round it, `.to_empty()` would lose it, and a checkpoint
    need not carry it. It follows the input's device and is never below float32.
    """

    def __init__(self) -> None:
        super().__init__()
        self._table: Tensor | None = None

    @abstractmethod
    def _rows(self, places: Shaped[Tensor, "*batch places"]) -> Float[Tensor, "*batch places width"]:
        """The rows at these places, in float64."""

    def _at(self, places: Places, length: int, like: Tensor) -> Float[Tensor, "*batch length width"]:
        """The rows for `length` vectors that stand at `places`."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        if isinstance(places, Tensor):
            return self._rows(places.to(like.device)).to(dtype)
        stop = places + length
        # Numbers made under a transform or for a subclass (fake, traced) must not outlive it: they are not kept.
        if stop > MOST_ROWS or torch.compiler.is_compiling() or transformed() or type(like) is not Tensor:
            return self._rows(torch.arange(places, stop, device=like.device)).to(dtype)
        table = self._table
        if table is None or table.device != like.device or table.dtype != dtype or len(table) < stop:
            # Built outside inference mode, or a model that was validated first could not be trained after.
            with torch.inference_mode(False):
                enough = 1 << max(stop - 1, 63).bit_length()
                table = self._table = self._rows(torch.arange(enough, device=like.device)).to(dtype)
        return table[places:stop]


class Sinusoidal(Placed):
    """x (..., L, D) plus the table of sines and cosines; any length, no parameters.

    d_model     D, odd widths too
    base        10000 as published; larger for longer sequences

    `positions` is the place of the first vector, or the place of each as a tensor (L,) or (..., L).

    >>> places = Sinusoidal(4)
    >>> places(torch.zeros(2, 4))
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    >>> bool((places(torch.zeros(1, 4), positions=1) == places(torch.zeros(2, 4))[1]).all())
    True
    """

    def __init__(self, d_model: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.d_model = whole("Sinusoidal(d_model)", d_model, 1, "it is the width of a vector")
        self.base = float(base)

    def forward(self, x: Tensor, positions: Places = 0) -> Tensor:
        check_vectors("Sinusoidal", x, self.d_model)
        check_places(positions, x.shape[:-1])
        return (x + self._at(positions, x.shape[-2], x)).to(x.dtype)

    def _rows(self, places: Shaped[Tensor, "*batch places"]) -> Float[Tensor, "*batch places width"]:
        return _sinusoids(places, self.d_model, self.base)

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, base={self.base:g}"


class Learned(nn.Module):
    """x (..., L, D) plus one learned vector a place, for at most `max_length` places (as BERT and GPT-2).

    max_length  how many places there are
    d_model     D
    std         standard deviation of the normal numbers it starts from

    `positions` is the place of the first vector, or the place of each as a tensor (L,) or (..., L).

    >>> places = Learned(8, 4)
    >>> places(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    >>> places(torch.zeros(2, 9, 4))
    Traceback (most recent call last):
    ValueError: Learned has 8 places, 0 … 7, but place 8 was asked for (9 vectors from place 0 on);
    build it with a larger max_length, or use Sinusoidal or Rotary, which have no end
    """

    def __init__(self, max_length: int, d_model: int, *, std: float = 0.02) -> None:
        super().__init__()
        self.max_length = whole("Learned(max_length)", max_length, 1, "it counts places")
        self.d_model = whole("Learned(d_model)", d_model, 1, "it is the width of a vector")
        self.std = std
        self.weight = nn.Parameter(torch.empty(self.max_length, self.d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.std)

    def forward(self, x: Tensor, positions: Places = 0) -> Tensor:
        check_vectors("Learned", x, self.d_model)
        check_places(positions, x.shape[:-1])
        if isinstance(positions, Tensor):
            if not torch.compiler.is_compiling() and positions.numel():
                whole("positions", int(positions.min()), 0, "places count from 0")
                self._check_end(int(positions.max()), f"the largest of {tuple(positions.shape)} positions")
            return x + self.weight[positions]
        stop = positions + x.shape[-2]
        self._check_end(stop - 1, f"{x.shape[-2]} vectors from place {positions} on")
        return x + self.weight[positions:stop]

    def _check_end(self, place: int, why: str) -> None:
        if place >= self.max_length:
            raise ValueError(
                f"Learned has {self.max_length} places, 0 … {self.max_length - 1}, but place {place} was "
                f"asked for ({why}); build it with a larger max_length, or use Sinusoidal or Rotary, which "
                "have no end"
            )

    def extra_repr(self) -> str:
        return f"max_length={self.max_length}, d_model={self.d_model}"


def check_vectors(who: str, x: Tensor, d_model: int) -> None:
    """Raise unless x is (..., L, D) of floating point numbers."""
    if x.dim() < 2 or x.shape[-1] != d_model:
        raise ValueError(f"{who} takes x of shape (..., L, {d_model}), got {tuple(x.shape)}")
    if not x.dtype.is_floating_point:
        raise TypeError(f"{who} takes floating point numbers, got {x.dtype}; token ids are embedded first")


def check_places(positions: Places, rows: tuple[int, ...]) -> None:
    """Raise unless `positions` names the places of vectors (*rows, width)."""
    if not isinstance(positions, Tensor):
        whole("positions", positions, 0, "places count from 0")
        return
    if positions.dtype == torch.bool or positions.dtype.is_complex:
        raise TypeError(f"positions must be numbers, got {positions.dtype}; booleans are for masks.padding")
    if positions.dim() == 0 or tuple(positions.shape) not in (tuple(rows[-1:]), tuple(rows)):
        shapes = " or ".join(str(shape) for shape in dict.fromkeys((tuple(rows[-1:]), tuple(rows))))
        raise ValueError(
            f"positions must be one place, or a tensor of shape {shapes} with a place a vector; "
            f"got shape {tuple(positions.shape)}"
        )
