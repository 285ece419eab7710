"""Watching beside not watching, and beside the eager way: `python bench/watch.py`.

A GPT-2 of 4 layers with random weights from `transformers` (768 wide, 12 heads), float32, one thread.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from side_by_side import Row, memory_mb, one_thread, race, report, steps

import regard


def gpt2(attention: str = "sdpa") -> torch.nn.Module:
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    config = GPT2Config(n_layer=4, n_positions=2048, bos_token_id=0, eos_token_id=0)
    return GPT2Model._from_config(config, attn_implementation=attention).eval()


def quiet(call: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return call()

    return run


def inputs_kept(length: int) -> list[Row]:
    model, ids = gpt2(), torch.randint(0, 50257, (1, length))

    def watched() -> None:
        with regard.watch(model):
            model(input_ids=ids)

    ms = race({"watched": quiet(watched), "plain": quiet(lambda: model(input_ids=ids))}, rounds=9)
    return [
        Row("watched / unwatched forward, keep='inputs'", f"{length} tokens", ms["watched"], ms["plain"], "ms", 1.03)
    ]


def with_statistics(length: int = 2048) -> list[Row]:
    model, eager = gpt2(), gpt2("eager")
    ids = torch.randint(0, 50257, (1, length))

    def four() -> None:
        with regard.watch(model) as seen:
            model(input_ids=ids)
        for call in seen.calls:
            call.statistics  # noqa: B018 (computed when asked for)

    def more() -> None:
        with regard.watch(model) as seen:
            model(input_ids=ids)
        for call in seen.calls:
            call.statistics  # noqa: B018
            call.received()
            call.top(8)

    def maps() -> None:
        place = torch.arange(length, dtype=torch.float32)
        for w in eager(input_ids=ids, output_attentions=True).attentions:
            _ = -(w * w.clamp_min(1e-30).log()).sum(-1)
            mean, square = w @ place, w @ place**2
            _ = place - mean, (square - mean**2).clamp_min(0).sqrt(), w[..., 0]

    ways = {"plain": quiet(lambda: model(input_ids=ids)), "four": quiet(four), "more": quiet(more), "maps": quiet(maps)}
    ms = race(ways, rounds=5)
    at = f"{length} tokens"
    return [
        Row("with entropy, distance, spread, sink / unwatched", at, ms["four"], ms["plain"], "ms", 1.30),
        Row("with received and top(8) as well / unwatched", at, ms["more"], ms["plain"], "ms", 2.2),
        Row("the first four / eager with output_attentions", at, ms["four"], ms["maps"], "ms", 0.40),
    ]


def memory(length: int = 32768) -> list[Row]:
    done = subprocess.run(
        [sys.executable, __file__, "--memory", str(length)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    name = "extra peak memory of all statistics, one layer of 8 heads / 400 MB"
    return [Row(name, f"{length} tokens", found["MB"], 400.0, "MB", 1.0)]


def memory_of(length: int) -> None:
    layer = regard.nn.MultiHeadAttention(512, 8, causal=True)

    def all_of(n: int) -> None:
        with torch.no_grad(), regard.watch(layer) as seen:
            layer(torch.randn(1, n, 512))
        call = seen.calls[0]
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak counts from here, with q and k held
        before = memory_mb("VmRSS")
        call.statistics  # noqa: B018
        call.received()
        call.top(8)
        found["MB"] = memory_mb("VmHWM") - before

    found: dict[str, float] = {}
    all_of(512)
    all_of(length)
    print(json.dumps(found))


if __name__ == "__main__":
    one_thread()
    torch.manual_seed(0)
    if sys.argv[1:2] == ["--memory"]:
        memory_of(int(sys.argv[2]))
    else:
        todo = [*(lambda n=n: inputs_kept(n) for n in (256, 1024, 2048)), with_statistics, memory]
        report("watch", "Watching a GPT-2 of 4 layers", steps(todo))
