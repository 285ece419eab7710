"""The 3×3 convolution of a board network: in tiles (winograd.py) where that is faster, else torch's own.

The gradients are computed in tiles as well:

    of the input      the convolution of the output's gradient with the filters turned round
    of the filters    Gᵀ (Σ (A dy Aᵀ)ᵀ (Bᵀ d B), over all tiles) G
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.models.board.winograd import Floats, Tiling, from_points, tiling, to_points

FEWEST_CHANNELS = 48
FEWEST_BOARDS = 16  # with fewer, computing the filters at all points takes longer than what is saved
FEWEST_KEPT = 4  # the same for reading them, where they are kept
MOST_THREADS = 4  # the loops between boards and points have one thread, torch's convolution has all
AT_ONCE = 2304  # boards × channels whose points stay in the cache next to the core


class BoardConv(nn.Conv2d):
    """3×3 convolution with zeros around the board; optionally plus `rest`, then relu.

    >>> conv, x = BoardConv(64, 64), torch.randn(16, 64, 6, 7)
    >>> plain = nn.functional.conv2d(x, conv.weight, conv.bias, padding=1)
    >>> torch.allclose(conv(x), plain, atol=1e-5)
    True
    """

    def __init__(self, taken: int, given: int, *, bias: bool = True) -> None:
        super().__init__(taken, given, 3, padding=1, bias=bias)
        self.kept: dict[tuple[int, int], Tensor] | None = None

    def keep(self) -> None:
        """From now on the weights do not change: what is computed from them is kept."""
        self.kept = {}

    def forward(self, x: Tensor, rest: Tensor | None = None, relu: bool = False) -> Tensor:
        """conv(x), or with what is asked for, relu(conv(x) + rest)."""
        if not _tiles_pay(x, self.weight, FEWEST_BOARDS if self.kept is None else FEWEST_KEPT):
            y = super().forward(x)
        elif torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad):
            y = _Tiled.apply(x, self.weight)  # type: ignore[no-untyped-call]
            y = y if self.bias is None else y + self.bias[:, None, None]
        else:
            return convolve(x, self._filters(x), self.bias, rest, relu)
        y = y if rest is None else y.add_(rest)
        return y.relu_() if relu else y

    def _filters(self, x: Tensor) -> Tensor:
        """At all points, (points, C_in, C_out)."""
        rows, columns = _tilings(x)
        if self.kept is None:
            return at_points(self.weight, rows, columns).transpose(1, 2)
        tile = rows.m, columns.m
        if tile not in self.kept:
            self.kept[tile] = at_points(self.weight, rows, columns).transpose(1, 2).contiguous()
        return self.kept[tile]


def _tiles_pay(x: Tensor, weight: Tensor, fewest: int) -> bool:
    return (
        x.is_cpu
        and type(x) in (Tensor, nn.Parameter)
        and x.dtype == weight.dtype == torch.float32
        and min(weight.shape[:2]) >= FEWEST_CHANNELS
        and len(x) >= fewest
        and min(x.shape[-2:]) >= 3
        and torch.get_num_threads() <= MOST_THREADS
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and torch._C._functorch.peek_interpreter_stack() is None  # not inside vmap or another torch.func transform
    )


def _tilings(x: Tensor) -> tuple[Tiling, Tiling]:
    return tiling(x.shape[-2]), tiling(x.shape[-1])


def at_points(weight: Tensor, rows: Tiling, columns: Tiling) -> Tensor:
    """G g Gᵀ for the filters g of all channels: weight (C_out, C_in, 3, 3) → (points, C_out, C_in)."""
    filters = weight.detach().permute(2, 3, 0, 1).reshape(9, -1)
    return (_filters_to_points(rows, columns) @ filters).view(-1, *weight.shape[:2])


def _filters_to_points(rows: Tiling, columns: Tiling) -> Tensor:
    """(points, 9)"""
    return torch.from_numpy(np.kron(rows.g, columns.g)).float()


def convolve(
    x: Tensor, filters: Tensor, bias: Tensor | None = None, rest: Tensor | None = None, relu: bool = False
) -> Tensor:
    """relu(conv(x) + bias + rest), with what is given of these: x (B, C_in, H, W) → (B, C_out, H, W).

    filters     at all points, (points, C_in, C_out)
    """
    rows, columns = _tilings(x)
    points, taken, given = filters.shape
    y = torch.empty(len(x), given, *x.shape[2:], memory_format=torch.channels_last)
    flat, out = _flat(x), _flat(y)
    added = np.zeros(out.shape[2], np.float32) if bias is None else np.tile(bias.detach().numpy(), x.shape[3])
    further = np.empty((0, 0, 0), np.float32) if rest is None else _flat(rest)
    m, tiles, count = (rows.m, columns.m), (rows.tiles, columns.tiles), (rows.points, columns.points)
    pieces = _pieces(len(x), max(taken, given))
    room = points * pieces[0].stop * rows.tiles * columns.tiles
    inputs, outputs = torch.empty(room * taken), torch.empty(room * given)
    for here in pieces:
        used = (here.stop - here.start) * rows.tiles * columns.tiles
        spread, products = _part(inputs, points, used, taken), _part(outputs, points, used, given)
        to_points(flat[here], 1, rows.b, columns.b, m, tiles, spread.numpy())
        torch.bmm(spread, filters, out=products)
        floor = 0.0 if relu else -np.inf
        from_points(products.numpy(), rows.a, columns.a, count, tiles, added, further[here], floor, out[here])
    return y


def filter_gradient(x: Tensor, dy: Tensor) -> Tensor:
    """The gradient of the filters (C_out, C_in, 3, 3), from the input and the gradient of the output."""
    rows, columns = _tilings(x)
    taken, given, points = x.shape[1], dy.shape[1], rows.points * columns.points
    flat, flat_dy, total = _flat(x), _flat(dy), torch.zeros(points, given, taken)
    m, tiles = (rows.m, columns.m), (rows.tiles, columns.tiles)
    pieces = _pieces(len(x), max(taken, given))
    room = points * pieces[0].stop * rows.tiles * columns.tiles
    inputs, gradients = torch.empty(room * taken), torch.empty(room * given)
    for here in pieces:
        used = (here.stop - here.start) * rows.tiles * columns.tiles
        spread, spread_dy = _part(inputs, points, used, taken), _part(gradients, points, used, given)
        to_points(flat[here], 1, rows.b, columns.b, m, tiles, spread.numpy())
        to_points(flat_dy[here], 0, rows.back, columns.back, m, tiles, spread_dy.numpy())
        total.baddbmm_(spread_dy.transpose(1, 2), spread)
    found = _filters_to_points(rows, columns).T @ total.view(points, -1)  # (9, C_out · C_in)
    return found.view(3, 3, given, taken).permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)


def _pieces(boards: int, channels: int) -> list[slice]:
    step = max(16, AT_ONCE // channels // 16 * 16)
    return [slice(start, min(start + step, boards)) for start in range(0, boards, step)]


def _part(memory: Tensor, *shape: int) -> Tensor:
    """The first numbers of memory that is used again for every piece: it stays in the cache."""
    return memory[: math.prod(shape)].view(shape)


def _flat(x: Tensor) -> Floats:
    """(B, C, H, W) as an array (B, H, W·C); free for channels last."""
    flat: Floats = x.detach().permute(0, 2, 3, 1).contiguous().view(len(x), x.shape[2], -1).numpy()
    return flat


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return convolve(x, at_points(weight, *_tilings(x)).transpose(1, 2))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = convolve(dy, at_points(weight.flip(2, 3), *_tilings(x)))
        if ctx.needs_input_grad[1]:
            dw = filter_gradient(x, dy)
        return dx, dw
