"""Sizes of tiles: `python bench/kernel.py` measures torch's CPU kernel on pieces of one problem.

These measurements determine the constants of regard/attention/kernels/block_plan.py and tiled_attention.py: the
number of keys per backward call, and from which length the kernel's own causal rule beats a staircase of blocks.
"""

from collections.abc import Callable

import torch
from side_by_side import Row, one_thread, race, report, steps
from torch import Tensor

import regard
from regard import masks
from regard.attention.kernels import block_plan as plans
from regard.attention.kernels import tiled_attention as tiles

H, D_K = 8, 64


def inputs(length: int, batch: int) -> list[Tensor]:
    packed = torch.randn(batch, length, 3, H, D_K).permute(2, 0, 3, 1, 4)
    return [x.detach().requires_grad_() for x in packed]


def keys_at_once() -> list[Row]:
    """Compare the backward pass over 2,048 keys in pieces with one call."""
    qkv = inputs(2048, 1)
    g = torch.randn_like(qkv[0])

    def backward(keys: int) -> Callable[[], object]:
        def run() -> object:
            tiles.BACKWARD_KEYS = keys
            return torch.autograd.grad(out, qkv, g, retain_graph=True)

        return run

    kept, out = tiles.BACKWARD_KEYS, regard.attend(*qkv)
    sizes = (128, 256, kept, 512, 1024, 2048)
    ms = race({str(size): backward(size) for size in sizes})
    tiles.BACKWARD_KEYS = kept
    return [Row(f"backward, {size} keys at once / all", "S=2048", ms[str(size)], ms["2048"], "ms") for size in sizes]


def staircase(length: int) -> list[Row]:
    """Compare causal attention by blocks with the kernel's `is_causal`, forward and backward."""
    qkv = inputs(length, max(1, 2048 // length))
    g = torch.randn_like(qkv[0])

    def ours(triangle: int, block: int) -> Callable[[], object]:
        rule = masks.causal()

        def run() -> object:
            plans.TRIANGLE, plans.BLOCK, plans.SMALL_BLOCK = triangle, block, block
            plans._cached_plan.cache_clear()
            return torch.autograd.grad(regard.attend(*qkv, rule), qkv, g)

        return run

    kept = plans.TRIANGLE, plans.BLOCK, plans.SMALL_BLOCK
    ms = race({"kernel": ours(1, 64), **{str(block): ours(1 << 30, block) for block in (64, 128, 256)}}, rounds=7)
    plans.TRIANGLE, plans.BLOCK, plans.SMALL_BLOCK = kept
    plans._cached_plan.cache_clear()
    return [
        Row(f"causal in blocks of {block} / the kernel's rule", f"S={length}", ms[block], ms["kernel"], "ms")
        for block in ("64", "128", "256")
    ]


if __name__ == "__main__":
    one_thread()
    torch.manual_seed(0)
    todo = [keys_at_once, *(lambda length=length: staircase(length) for length in (128, 256, 512, 1024, 2048))]
    report("kernel", "torch's CPU kernel on pieces (float32, 8 heads of 64)", steps(todo))
