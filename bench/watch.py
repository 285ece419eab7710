"""Watched models compared with unwatched ones and with eager attention: `python bench/watch.py [--only NAME …]`.

A GPT-2 of 4 layers with random weights from `transformers` (768 wide, 12 heads), float32, one thread. `--only` runs
some of the comparisons, which are named at the end of this file, and keeps the results of the others.
"""

import argparse
import gc
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from side_by_side import Row, close_race, memory_mb, one_thread, race, report, steps
from torch.overrides import TorchFunctionMode

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

    rounds = 2 + 38_000 // length
    ms = close_race({"watched": quiet(watched), "plain": quiet(lambda: model(input_ids=ids))}, rounds=rounds)
    return [
        Row("watched / unwatched forward, keep='inputs'", f"{length} tokens", ms["watched"], ms["plain"], "ms", 1.03)
    ]


def small_model() -> list[Row]:
    """Measure a model whose forward pass takes about 2 ms, where each torch function costs more than its work."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(n_layer=4, n_embd=64, n_head=4, vocab_size=100, bos_token_id=0, eos_token_id=0)
    model, ids = GPT2Model._from_config(config, attn_implementation="sdpa").eval(), torch.randint(0, 100, (1, 16))

    class Nothing(TorchFunctionMode):
        """A TorchFunctionMode that only calls each function: no recorder that sees all functions can be faster."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    def watched() -> None:
        with regard.watch(model):
            model(input_ids=ids)

    def seen_by_nothing() -> None:
        with Nothing():
            model(input_ids=ids)

    ways = {"watched": watched, "plain": lambda: model(input_ids=ids), "nothing": seen_by_nothing}
    ms = close_race({name: quiet(way) for name, way in ways.items()}, rounds=200)
    at = "4 layers, 64 wide, 16 tokens"
    return [
        Row("watched / unwatched forward of a small model", at, ms["watched"], ms["plain"], "ms", 1.15),
        Row("the same with an empty TorchFunctionMode / unwatched", at, ms["nothing"], ms["plain"], "ms", None),
    ]


PROMPT, NEW = 2048, 512  # tokens


def generator() -> tuple[torch.nn.Module, Callable[[int], None]]:
    """Return a model and a function that generates so many tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=4, n_positions=4096, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel._from_config(config, attn_implementation="sdpa").eval()
    ids = torch.randint(1, 50257, (1, PROMPT))

    def generate(count: int) -> None:
        tokens = {"max_new_tokens": count, "min_new_tokens": count, "pad_token_id": 0}
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **tokens)

    return model, generate


def generation() -> list[Row]:
    model, generate = generator()

    def watched(count: int = NEW) -> None:
        with regard.watch(model):
            generate(count)

    for warm_up in (watched, generate):
        quiet(lambda warm_up=warm_up: warm_up(8))()
    ways = {"watched": quiet(watched), "plain": quiet(lambda: generate(NEW))}
    ms = close_race(ways, rounds=2, warm_up=False)  # each takes 15 s
    return [Row("generate: watched / unwatched", f"{PROMPT} tokens + {NEW}", ms["watched"], ms["plain"], "ms", 1.05)]


def generation_memory() -> list[Row]:
    model, generate = generator()

    def held(count: int) -> float:
        """Return the MB that a recording of the generation keeps."""
        before = tensor_mb()
        with torch.no_grad(), regard.watch(model) as seen:
            generate(count)
        assert len(seen.calls) == 4 * count
        return tensor_mb() - before

    prompt, half, whole = held(1), held(NEW // 2), held(NEW)
    once = (4 * 2 * (PROMPT + NEW) + 4 * 2 * (PROMPT + NEW)) * 768 * 4 / 1e6  # q, k, v and output of each token once
    at = f"{PROMPT} tokens + {NEW}"
    return [
        Row(
            "generate: memory added by all steps / twice that of half",
            at,
            whole - prompt,
            2 * (half - prompt),
            "MB",
            1.1,
        ),
        Row("generate: memory / q, k, v and output of each token once", at, whole, once, "MB", 1.1),
    ]


def tensor_mb() -> float:
    """Return the size of all tensors that exist, in MB; those that share memory count once."""
    gc.collect()
    storages = [x.untyped_storage() for x in gc.get_objects() if type(x) in (torch.Tensor, torch.nn.Parameter)]
    return sum({x.data_ptr(): x.nbytes() for x in storages}.values()) / 1e6


def with_statistics(length: int = 2048) -> list[Row]:
    model, eager = gpt2(), gpt2("eager")
    ids = torch.randint(0, 50257, (1, length))

    def four() -> None:
        with regard.watch(model) as seen:
            model(input_ids=ids)
        for call in seen.calls:
            call.statistics  # noqa: B018 (a cached property: reading it computes it)

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
        Row("the first four / eager with output_attentions", at, ms["four"], ms["maps"], "ms", 0.35),
    ]


def checked(length: int = 32768) -> list[Row]:
    """Compare the doctor's check of one causal layer, 8 heads of width 64, with plain attention."""
    rows = []
    real = torch.ones(1, length, dtype=torch.long)
    for name, own in (("scaled_dot_product_attention", False), ("regard.attend", True)):
        layer = Causal(length, own)
        with torch.no_grad(), regard.watch(layer) as seen:
            layer()
        ways = {"plain": quiet(layer), "check": quiet(lambda seen=seen: seen.check(causal=True, padding=real))}
        ms = close_race(ways, rounds=1)  # plain attention takes half a minute
        rows.append(Row(f"seen.check / {name}", f"{length} tokens", ms["check"], ms["plain"], "ms", 1.2))
    return rows


class Causal(torch.nn.Module):
    """Causal attention of 8 heads between random vectors."""

    def __init__(self, length: int, own: bool) -> None:
        super().__init__()
        self.own = own
        self.q, self.k, self.v = (torch.randn(1, 8, length, 64) for _ in range(3))

    def forward(self) -> torch.Tensor:
        if self.own:
            return regard.attend(self.q, self.k, self.v, regard.masks.causal())
        return torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=True)


def precision() -> list[Row]:
    """Compare the largest errors with what is allowed."""
    model, eager = gpt2(), gpt2("eager")
    ids = torch.randint(0, 50257, (1, 2048))
    rows = []
    with torch.no_grad():
        with regard.watch(model) as seen:
            model(input_ids=ids)
        rows += _errors([(call, head) for call in seen.calls for head in (0, 11)], "GPT-2, 2048 tokens")
        for length, keys in ((2048, 2048), (256, 32768)):
            layer = Normal(length, keys)
            with regard.watch(layer) as normal:
                layer()
            rows += _errors([(normal.calls[0], 0)], f"normal q and k, {length} queries, {keys} keys")
        some = list(range(0, 2048, 61))
        maps = eager(input_ids=ids, output_attentions=True).attentions
        far = max(
            float((call.weights(head=3, queries=some)[0] - w[0, 3, some]).abs().max())
            for call, w in zip(seen.calls, maps, strict=True)
        )
    return [*rows, Row("one head's rows from weights() against eager attention's maps / 1e-5", "", far, 1e-5, "", 1.0)]


class Normal(torch.nn.Module):
    """One head of causal attention between random vectors, less uniform than that of an untrained model."""

    def __init__(self, length: int, keys: int) -> None:
        super().__init__()
        self.q, self.k = torch.randn(1, 1, length, 64), torch.randn(1, 1, keys, 64)

    def forward(self) -> torch.Tensor:
        return regard.attend(self.q, self.k, self.k, regard.masks.causal())


def _errors(heads: list[tuple[Any, int]], at: str) -> list[Row]:
    entropy = distance = 0.0
    for call, h in heads:
        q, k = (x[0, h].double().numpy() for x in (call.q, call.k))
        keys = np.arange(len(k))
        own = np.arange(len(k) - len(q), len(k))
        for part in np.array_split(np.arange(len(q)), -(-len(q) // 128)):
            scores = np.where(keys <= own[part, None], call.scale * q[part] @ k.T, -np.inf)
            w = np.exp(scores - scores.max(-1, keepdims=True))
            w /= w.sum(-1, keepdims=True)
            exact = -(w * np.log(np.where(w > 0, w, 1.0))).sum(-1), own[part] - w @ keys
            found = (x[0, h, part].numpy() for x in (call.entropy(), call.distance()))
            errors = [float(np.abs(a - b).max()) for a, b in zip(found, exact, strict=True)]
            entropy, distance = max(entropy, errors[0]), max(distance, errors[1])
    return [
        Row("entropy against float64 NumPy / 1e-4", at, entropy, 1e-4, "", 1.0),
        Row("distance against float64 NumPy / 1e-4", at, distance, 1e-4, "", 1.0),
    ]


def page() -> list[Row]:
    """Measure the HTML page of a whole model: its size and the time until a browser has drawn it."""
    from regard.pictures import Factors, attention_page

    at = "12 layers × 12 heads × 512 tokens"
    rng = np.random.default_rng(0)
    layers = [Factors(rng.normal(size=(12, 512, 64)), rng.normal(size=(12, 512, 64))) for _ in range(12)]
    with TemporaryDirectory() as folder:
        file = attention_page(layers, [f"t{i}" for i in range(512)]).save(Path(folder) / "page.html")
        rows = [Row("HTML page: size / 25 MB", at, file.stat().st_size / 1e6, 25.0, "MB", 1.0)]
        chromium = shutil.which("chromium")
        if chromium is None:
            return [*rows, Row("HTML page: NOT OPENED, Chromium is missing (apt-get install chromium)", at, 0, 1, "")]
        complaints: list[str] = []
        drawn = min(opened(chromium, file, complaints) for _ in range(3))
    return [
        *rows,
        Row("HTML page: first view drawn / 2 s", at, drawn, 2.0, "s", 1.0),
        Row("HTML page: errors on the console / none allowed", at, len(complaints), 1.0, "", 0.0),
    ]


def opened(chromium: str, file: Path, complaints: list[str]) -> float:
    """Return the seconds until the page reports that its first view is drawn."""
    from playwright.sync_api import sync_playwright

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=flags)
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(file.as_uri())
        tab.wait_for_selector("html[data-ready]", timeout=60_000)
        ready = tab.locator("html").get_attribute("data-ready")
        browser.close()
    return int(ready or 0) / 1000


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
        Path("/proc/self/clear_refs").write_text("5")  # Linux: restart the peak here, where q and k are allocated
        before = memory_mb("VmRSS")
        call.statistics  # noqa: B018
        call.received()
        call.top(8)
        found["MB"] = memory_mb("VmHWM") - before

    found: dict[str, float] = {}
    all_of(512)
    all_of(length)
    print(json.dumps(found))


COMPARISONS: dict[str, Callable[[], list[Row]]] = {
    "forward-256": lambda: inputs_kept(256),
    "forward-1024": lambda: inputs_kept(1024),
    "forward-2048": lambda: inputs_kept(2048),
    "small": small_model,
    "generate": generation,
    "generate-memory": generation_memory,
    "statistics": with_statistics,
    "check": checked,
    "memory": memory,
    "precision": precision,
    "page": page,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, metavar="NAME", help=", ".join(COMPARISONS))
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)  # the child process of the comparison "memory"
    options = parser.parse_args()
    one_thread()
    torch.manual_seed(0)
    if options.memory:
        memory_of(options.memory)
    else:
        todo = [COMPARISONS[name] for name in options.only or COMPARISONS]
        report("watch", "Watching a GPT-2 of 4 layers", steps(todo), keep_others=options.only is not None)
