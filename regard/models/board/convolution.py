"""3×3 convolution of a board network: Winograd's algorithm (winograd.py) where that is faster, torch's elsewhere.

The gradients use the same transforms:

    of the input      the convolution of the output's gradient with the filters rotated by 180°
    of the filters    Gᵀ (Σ (A dy Aᵀ)ᵀ (Bᵀ d B), over all tiles) G

Time relative to torch's convolution in the same channels-last format, for 256 boards of 6×7 on one thread: 0.58 with
144 channels, 0.64 with 96 and 0.74 with 64. Measured on an AMD EPYC by `taskset -c 0 python bench/board.py`, rows
"Winograd / channels last".
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.types import Device

from regard.attention.kernels.private_torch_operators import has_memory, in_graph
from regard.extras import installed
from regard.models.board.winograd import Floats, Tiling, from_points, tiling, to_points

MIN_CHANNELS = 48
MIN_BOARDS = 16  # with fewer boards, transforming the filters takes longer than the convolution saves
MIN_BOARDS_CACHED = 4  # with fewer boards, reading the cached filters takes longer than the convolution saves
MAX_THREADS = 4  # with more threads torch's convolution is faster: Winograd's transforms use one
CHUNK = 2304  # boards × channels whose transforms stay in the processor's L2 cache


class BoardConv(nn.Conv2d):
    """3×3 convolution with zero padding; optionally plus a residual, then relu.

    >>> conv, x = BoardConv(64, 64), torch.randn(16, 64, 6, 7)
    >>> expected = nn.functional.conv2d(x, conv.weight, conv.bias, padding=1)
    >>> torch.allclose(conv(x), expected, atol=1e-5)
    True
    """

    def __init__(
        self, inputs: int, outputs: int, *, bias: bool = True, device: Device = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(inputs, outputs, 3, padding=1, bias=bias, device=device, dtype=dtype)
        self.cached_filters: dict[tuple[int, int], Tensor] | None = None

    def cache_filters(self) -> None:
        """Cache the transformed filters from now on; the weights must not change any more."""
        self.cached_filters = {}

    def forward(self, x: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        """Return conv(x) + residual (if given), after relu if `relu` is True."""
        if not _use_winograd(x, self.weight, MIN_BOARDS if self.cached_filters is None else MIN_BOARDS_CACHED):
            y = super().forward(x)
        elif torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad):
            y = _WinogradConvolution.apply(x, self.weight)  # type: ignore[no-untyped-call]
            y = y if self.bias is None else y + self.bias[:, None, None]
        else:
            return convolve(x, self._filters(x), self.bias, residual, relu)
        y = y if residual is None else y.add_(residual)
        return y.relu_() if relu else y

    def _filters(self, x: Tensor) -> Tensor:
        """Return the transformed filters (points, C_in, C_out)."""
        rows, columns = _tilings(x)
        if self.cached_filters is None:
            return transform_filters(self.weight, rows, columns).transpose(1, 2)
        tile = rows.m, columns.m
        if tile not in self.cached_filters:
            self.cached_filters[tile] = transform_filters(self.weight, rows, columns).transpose(1, 2).contiguous()
        return self.cached_filters[tile]


def _use_winograd(x: Tensor, weight: Tensor, min_boards: int) -> bool:
    return (
        x.is_cpu
        and installed("numba")
        and type(x) in (Tensor, nn.Parameter)
        and x.dtype == weight.dtype == torch.float32
        and min(weight.shape[:2]) >= MIN_CHANNELS
        and len(x) >= min_boards
        and min(x.shape[-2:]) >= 3
        and torch.get_num_threads() <= MAX_THREADS
        and not in_graph(x)
        and not torch.is_autocast_enabled("cpu")
        and has_memory(x)
        and has_memory(weight)
    )


def _tilings(x: Tensor) -> tuple[Tiling, Tiling]:
    return tiling(x.shape[-2]), tiling(x.shape[-1])


def transform_filters(weight: Tensor, rows: Tiling, columns: Tiling) -> Tensor:
    """Return G g Gᵀ of the filters g of all channels: weight (C_out, C_in, 3, 3) → (points, C_out, C_in)."""
    filters = weight.detach().permute(2, 3, 0, 1).reshape(9, -1)
    return (_filter_matrix(rows, columns) @ filters).view(-1, *weight.shape[:2])


def _filter_matrix(rows: Tiling, columns: Tiling) -> Tensor:
    """Return G ⊗ G, (points, 9)."""
    return torch.from_numpy(np.kron(rows.g, columns.g)).float()


def convolve(
    x: Tensor, filters: Tensor, bias: Tensor | None = None, residual: Tensor | None = None, relu: bool = False
) -> Tensor:
    """Return relu(conv(x) + bias + residual), without the parts that are not given: (B, C_in, H, W) → (B, C_out, H, W).

    filters     transformed filters (points, C_in, C_out)
    """
    rows, columns = _tilings(x)
    outputs = filters.shape[2]
    y = torch.empty(len(x), outputs, *x.shape[2:], memory_format=torch.channels_last)
    result = _as_array(y)
    offsets = np.zeros(result.shape[2], np.float32) if bias is None else np.tile(bias.detach().numpy(), x.shape[3])
    added = np.empty((0, 0, 0), np.float32) if residual is None else _as_array(residual)
    tiles, counts, floor = (rows.tiles, columns.tiles), (rows.points, columns.points), 0.0 if relu else -np.inf
    for chunk, d, products in _transformed_chunks(x, outputs):
        torch.bmm(d, filters, out=products)
        from_points(products.numpy(), rows.a, columns.a, counts, tiles, offsets, added[chunk], floor, result[chunk])
    return y


def filter_gradient(x: Tensor, dy: Tensor) -> Tensor:
    """Return the gradient of the filters (C_out, C_in, 3, 3) from the input and the gradient of the output."""
    rows, columns = _tilings(x)
    inputs, outputs, points = x.shape[1], dy.shape[1], rows.points * columns.points
    gradients, total = _as_array(dy), torch.zeros(points, outputs, inputs)
    m, tiles = (rows.m, columns.m), (rows.tiles, columns.tiles)
    for chunk, d, g in _transformed_chunks(x, outputs):
        to_points(gradients[chunk], 0, rows.back, columns.back, m, tiles, g.numpy())
        total.baddbmm_(g.transpose(1, 2), d)
    filters = _filter_matrix(rows, columns).T @ total.view(points, -1)  # (9, C_out · C_in)
    return filters.view(3, 3, outputs, inputs).permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)


def _transformed_chunks(x: Tensor, outputs: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield chunks of boards: their slice, transforms Bᵀ d B (points, tiles, C_in) and a buffer (points, tiles, C_out).

    All chunks use the same memory, so that it stays in the processor's cache.
    """
    (rows, columns), boards, inputs = _tilings(x), _as_array(x), x.shape[1]
    points, tiles_per_board = rows.points * columns.points, rows.tiles * columns.tiles
    step = min(len(x), max(16, CHUNK // max(inputs, outputs) // 16 * 16))
    memory = [torch.empty(points * step * tiles_per_board * channels) for channels in (inputs, outputs)]
    for start in range(0, len(x), step):
        chunk = slice(start, min(start + step, len(x)))
        count = (chunk.stop - chunk.start) * tiles_per_board
        d, buffer = (
            part[: points * count * channels].view(points, count, channels)
            for part, channels in zip(memory, (inputs, outputs), strict=True)
        )
        to_points(boards[chunk], 1, rows.b, columns.b, (rows.m, columns.m), (rows.tiles, columns.tiles), d.numpy())
        yield chunk, d, buffer


def _as_array(x: Tensor) -> Floats:
    """Return (B, C, H, W) as an array (B, H, W·C), without a copy for channels-last tensors."""
    return x.detach().permute(0, 2, 3, 1).contiguous().view(len(x), x.shape[2], -1).numpy()


class _WinogradConvolution(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return convolve(x, transform_filters(weight, *_tilings(x)).transpose(1, 2))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, weight: Tensor) -> tuple[Tensor, int]:
        return torch.vmap(lambda x, weight: F.conv2d(x, weight, padding=1), in_dims)(x, weight), 0

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = convolve(dy, transform_filters(weight.flip(2, 3), *_tilings(x)))
        if ctx.needs_input_grad[1]:
            dw = filter_gradient(x, dy)
        return dx, dw
