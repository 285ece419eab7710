"""Attention compared with other implementations: `python bench/attention.py`.

One thread, float32, D = 512, 8 heads, B·S = 2048.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from side_by_side import Row, memory_mb, one_thread, race, report, steps
from torch import Tensor, nn

import regard
from regard import masks

D, H, TOKENS = 512, 8, 2048


class Bare(nn.Module):
    """The smallest possible layer: one packed projection, torch's fused kernel, the output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, H, D // H).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, D))


def forward(call: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return call()

    return run


def both_ways(layer: nn.Module, call: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], object]:
    def run() -> None:
        call(x).sum().backward()
        layer.zero_grad()
        x.grad = None

    x = x.clone().requires_grad_()
    return run


def layers(length: int) -> list[Row]:
    from x_transformers.x_transformers import Attention

    x = torch.randn(TOKENS // length, length, D)
    ours, bare = regard.nn.MultiHeadAttention(D, H), Bare()
    torchs = nn.MultiheadAttention(D, H, batch_first=True)
    theirs = Attention(dim=D, heads=H, dim_head=D // H, flash=True)
    at = f"S={length}"
    calls: dict[str, tuple[nn.Module, Callable[[Tensor], Tensor]]] = {
        "ours": (ours, ours),
        "bare": (bare, bare),
        "mha": (torchs, lambda x: torchs(x, x, x, need_weights=False)[0]),
        "x": (theirs, theirs),
    }
    ms = race({name: forward(lambda call=call: call(x)) for name, (_, call) in calls.items()}, rounds=15)
    train = race({name: both_ways(layer, call, x) for name, (layer, call) in calls.items()})
    rows = [
        Row("layer forward / minimal layer", at, ms["ours"], ms["bare"], "ms", 1.03),
        Row("layer forward / x-transformers, flash", at, ms["ours"], ms["x"], "ms"),
        Row("forward + backward / nn.MultiheadAttention", at, train["ours"], train["mha"], "ms", 0.97),
        Row("forward + backward / minimal layer", at, train["ours"], train["bare"], "ms"),
        Row("forward + backward / x-transformers, flash", at, train["ours"], train["x"], "ms"),
    ]
    if length >= 512:
        per_head = race(
            {
                "ours": forward(lambda: ours(x, weights=True)),
                "mha": forward(lambda: torchs(x, x, x, average_attn_weights=False)),
                "mean": forward(lambda: torchs(x, x, x)),
            }
        )
        name = "forward with every head's weights / nn.MHA(average_attn_weights=False)"
        rows.append(Row(name, at, per_head["ours"], per_head["mha"], "ms", 0.75))
        if length == 2048:
            rows.append(Row("forward / nn.MHA with weights", at, ms["ours"], per_head["mean"], "ms", 0.50))
    return rows


def heads_of(length: int, batch: int = 1, grad: bool = False) -> tuple[Tensor, ...]:
    packed = torch.randn(batch, length, 3, H, D // H).permute(2, 0, 3, 1, 4)
    return tuple(x.detach().requires_grad_(grad) for x in packed)


def padded() -> list[Row]:
    q, k, v = heads_of(2048)
    rule = masks.causal() & masks.padding([1900])
    table = rule.tensor(2048, 2048)
    ms = race(
        {
            "ours": forward(lambda: regard.attend(q, k, v, rule)),
            "theirs": forward(lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=table)),
        }
    )
    return [
        Row("padding & causal / fused kernel with the boolean mask", "S=2048", ms["ours"], ms["theirs"], "ms", 0.85)
    ]


def windowed() -> list[Row]:
    q, k, v = heads_of(4096, grad=True)
    rule = masks.window(keys=256)
    g = torch.randn_like(q)

    def ours() -> Tensor:
        return regard.attend(q, k, v, rule)

    def theirs() -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    ms = race({"ours": forward(ours), "theirs": forward(theirs)})
    train = race(
        {
            "ours": lambda: torch.autograd.grad(ours(), (q, k, v), g),
            "theirs": lambda: torch.autograd.grad(theirs(), (q, k, v), g),
        },
        rounds=7,
    )
    return [
        Row("window of 256 keys / causal, fused; forward", "S=4096", ms["ours"], ms["theirs"], "ms", 0.40),
        Row("the same, forward + backward", "S=4096", train["ours"], train["theirs"], "ms", 0.50),
    ]


def growth() -> list[Row]:
    sizes = (8192, 16384, 32768)
    rule = masks.window(keys=256)
    at = {size: heads_of(size, grad=True) for size in sizes}
    ones = {size: torch.ones_like(at[size][0]) for size in sizes}
    ms = race({str(size): forward(lambda size=size: regard.attend(*at[size], rule)) for size in sizes})
    both = race(
        {
            str(size): lambda size=size: torch.autograd.grad(regard.attend(*at[size], rule), at[size], ones[size])
            for size in sizes
        },
        rounds=7,
    )
    peak = {size: _alone(size) for size in sizes}
    rows = []
    for small, large in ((8192, 16384), (16384, 32768)):
        where = f"S={small} → {large}"
        rows += [
            Row("window of 256 keys, when S doubles: time", where, ms[str(large)], ms[str(small)], "ms", 2.15),
            Row("… forward + backward", where, both[str(large)], both[str(small)], "ms", 2.15),
            Row("… peak memory, forward + backward", where, peak[large], peak[small], "MB", 2.1),
        ]
    return rows


def _alone(size: int) -> float:
    """Peak memory in MB, measured in a separate process so that other steps do not count."""
    done = subprocess.run([sys.executable, __file__, "--peak", str(size)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def peak_of(size: int) -> None:
    small = heads_of(512, grad=True)
    rule = masks.window(keys=256)
    torch.autograd.grad(regard.attend(*small, rule).sum(), small)  # loading and first calls are not counted
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak counts from here
    before = memory_mb("VmRSS")
    q, k, v = heads_of(size, grad=True)
    torch.autograd.grad(regard.attend(q, k, v, rule), (q, k, v), torch.ones_like(q))
    print(memory_mb("VmHWM") - before)


if __name__ == "__main__":
    one_thread()
    torch.manual_seed(0)
    if sys.argv[1:2] == ["--peak"]:
        peak_of(int(sys.argv[2]))
    else:
        todo = [*(lambda length=length: layers(length) for length in (128, 512, 2048)), padded, windowed, growth]
        report("attention", f"Attention (float32, D={D}, {H} heads, B·S={TOKENS})", steps(todo))
