"""Interventions on fused attention, compared with hand-edited eager models: `python bench/intervene.py`.

Exactness: small random models of `transformers` families on "sdpa" (on "eager", where a family has nothing else)
against the same model on eager attention whose softmax results and head outputs are edited by hand.

Speed: a GPT-2 of 4 layers with random weights (768 wide, 12 heads), 2,048 tokens, float32, one thread.
Memory is the peak of a process that runs one forward pass, above what the model takes.
"""

import argparse
import gc
import importlib.util
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from side_by_side import Row, close_race, memory_mb, one_thread, report, steps
from torch import Tensor, nn

import regard
from regard.interventions import ablate, knockout, patch, reweight

FAMILIES = (
    "bert", "gpt2", "llama", "mistral", "qwen3", "gemma2", "gpt_oss", "opt", "bart", "t5", "falcon", "bloom", "vit",
    "gpt_neox", "mixtral",
)  # fmt: skip
Edit = Callable[[int, Tensor], Tensor]  # of the number of a call and its weights, or outputs of heads


# Exactness


def coverage() -> Any:
    """Return bench/coverage.py, which makes small models, as a module."""
    if "bench_coverage" not in sys.modules:
        path = list(sys.path)
        spec = importlib.util.spec_from_file_location("bench_coverage", Path(__file__).parent / "coverage.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules["bench_coverage"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.path[:] = path
    return sys.modules["bench_coverage"]


def models(family: str) -> tuple[nn.Module, nn.Module, dict[str, Any], dict[str, Any]]:
    """Return a model, its eager twin, and two inputs of the same shape; weights are larger than at initialization."""
    make = coverage()
    for implementation in ("sdpa", "eager"):
        try:
            model = make.transformers_model(family, implementation)
            break
        except ValueError:  # the family has no "sdpa"
            continue
    if family != "t5":  # its scores are not scaled, and large already
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.mul_(4.0)
    eager = make.transformers_model(family, "eager")
    eager.load_state_dict(model.state_dict())
    inputs = make.transformers_inputs(model)
    other = {name: (x + 5) % 90 + 3 if not x.is_floating_point() else x.flip(-1) for name, x in inputs.items()}
    return model, eager, inputs, other


@contextmanager
def edited_by_hand(weights: Edit, outputs: Edit | None = None) -> Iterator[None]:
    """Edit the result of each softmax over (B, H, L, S) scores, and the product of it with values."""
    originals, matmul, count = {F: F.softmax, torch: torch.softmax}, torch.matmul, iter(range(10**6))
    results: dict[int, tuple[int, Tensor]] = {}

    def softmax(*args: Any, **kwargs: Any) -> Tensor:
        result = originals[F](*args, **kwargs)
        if result.dim() != 4:
            return result
        number = next(count)
        edited = weights(number, result)
        results[number] = number, edited
        return edited

    def product(a: Tensor, b: Tensor, **kwargs: Any) -> Tensor:
        out = matmul(a, b, **kwargs)
        if outputs is not None:
            for number, x in results.values():
                if a.dim() == 4 and a.data_ptr() == x.data_ptr():
                    return outputs(number, out)
        return out

    for module in originals:
        module.softmax = softmax
    torch.matmul = product
    try:
        yield
    finally:
        for module, original in originals.items():
            module.softmax = original
        torch.matmul = matmul


def multiply(w: Tensor, keys: Any, by: float, queries: Any = slice(None)) -> Tensor:
    """Multiply the weights of some rows on some keys and renormalize; further columns are sinks."""
    changed = w.clone()
    rows = changed[:, :, queries]
    rows[..., keys] *= by
    changed[:, :, queries] = rows / rows.sum(-1, keepdim=True)
    return changed


def exactness(family: str) -> list[Row]:
    """Return the largest difference of a model's outputs from those of the hand-edited eager model."""
    model, eager, inputs, other = models(family)
    with torch.no_grad(), regard.watch(model) as seen:
        model(**other)
    calls = len(seen)

    def heads_off(_: int, w: Tensor) -> Tensor:
        return torch.cat([w[:, :1], w[:, 1:2] * 0, w[:, 2:3], w[:, 3:] * 0], 1)

    other_weights: dict[int, Tensor] = {}
    other_outputs: dict[int, Tensor] = {}
    with (
        torch.no_grad(),
        edited_by_hand(lambda i, w: other_weights.setdefault(i, w), lambda i, x: other_outputs.setdefault(i, x)),
    ):
        eager(**other)

    def from_other(new: dict[int, Tensor]) -> Edit:
        return lambda i, x: torch.cat([x[:, :2], new[i][:, 2:3], x[:, 3:]], 1)

    cases: dict[str, tuple[Any, ...]] = {
        "ablation": (ablate([1, 3]), heads_off),
        "knockout": (
            knockout(queries=-1, keys=slice(0, 2)),
            lambda _, w: multiply(w, slice(0, 2), 0.0, slice(-1, None)),
        ),
        "reweighting": (reweight(keys=[0], by=0.5), lambda _, w: multiply(w, [0], 0.5)),
        "patched weights": (patch(seen, heads=2), from_other(other_weights)),
    }
    if other_outputs:  # bloom multiplies with the values in three dimensions
        cases["patched outputs"] = patch(seen, "output", heads=2), lambda _, w: w, from_other(other_outputs)
    errors = {}
    tensors = coverage()._tensors
    with torch.no_grad():
        plain = tensors(model(**inputs))
    for what, (intervention, *edits) in cases.items():
        with torch.no_grad(), regard.intervene(model, {"*": intervention}):
            ours = tensors(model(**inputs))
        with torch.no_grad(), edited_by_hand(*edits):
            theirs = tensors(eager(**inputs))
        changed = max(float((a - b).abs().max()) for a, b in zip(ours, plain, strict=True))
        assert changed > 1e-3, (family, what, changed)
        errors[what] = max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))
    worst = max(errors, key=lambda what: errors[what])
    at = f"{family} ({model.config._attn_implementation}), {calls} calls; worst: {worst}"
    return [Row("largest difference of outputs / 1e-5", at, errors[worst], 1e-5, "", 1.0)]


# Speed and memory


def gpt2(attention: str = "sdpa", positions: int = 2048) -> nn.Module:
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    config = GPT2Config(n_layer=4, n_positions=positions, bos_token_id=0, eos_token_id=0)
    return GPT2Model._from_config(config, attn_implementation=attention).eval()


HEADS, KEYS, LAST = [0, 5, 7], list(range(100, 116)), slice(-16, None)
INTERVENTIONS: dict[str, tuple[Any, Edit]] = {
    "ablating 3 of 12 heads": (ablate(HEADS), lambda _, w: w.index_fill(1, torch.tensor(HEADS), 0.0)),
    "knockout of 16 keys for all rows": (knockout(keys=KEYS), lambda _, w: multiply(w, KEYS, 0.0)),
    "knockout of 1,000 keys for 16 rows": (
        knockout(queries=LAST, keys=slice(0, 1000)),
        lambda _, w: multiply(w, slice(0, 1000), 0.0, LAST),
    ),
    "knockout of 1,000 keys for all rows": (
        knockout(keys=slice(1, 1001)),
        lambda _, w: multiply(w, slice(1, 1001), 0.0),
    ),
}
BOUNDS = {"ablating": 1.03, "knockout of 16": 1.10, "knockout of 1,000 keys for 16": 1.10}


def intervened(model: nn.Module, ids: Tensor, change: Any) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad(), regard.intervene(model, {"*": change}):
            return model(input_ids=ids)

    return run


def on_eager(model: nn.Module, ids: Tensor, edit: Edit) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad(), edited_by_hand(edit):
            return model(input_ids=ids)

    return run


def speed(length: int = 2048) -> list[Row]:
    model, eager, ids = gpt2(), gpt2("eager"), torch.randint(0, 50257, (1, length))

    def plain() -> object:
        with torch.no_grad():
            return model(input_ids=ids)

    ours = {what: intervened(model, ids, change) for what, (change, _) in INTERVENTIONS.items()}
    ms = close_race({"plain": plain, **ours}, rounds=8)
    edited = {what: on_eager(eager, ids, edit) for what, (_, edit) in INTERVENTIONS.items()}
    theirs = close_race(edited, rounds=3)
    at = f"{length} tokens"
    rows = []
    for what in INTERVENTIONS:
        bound = next((x for start, x in BOUNDS.items() if what.startswith(start)), None)
        rows.append(Row(f"{what} / plain forward", at, ms[what], ms["plain"], "ms", bound))
    rows += [Row(f"{what} / eager, edited by hand", at, ms[what], theirs[what], "ms", 0.52) for what in INTERVENTIONS]
    return rows


def peak_of_one_run(name: str, what: str, length: int, queue: Any) -> None:
    """Put the MB that one run takes above the memory of the model."""
    one_thread()
    model, ids = gpt2("eager" if name == "eager" else "sdpa", LENGTHS[-1]), torch.randint(0, 50257, (1, length))
    change, edit = INTERVENTIONS[what]
    run = on_eager(model, ids, edit) if name == "eager" else intervened(model, ids, change if name == "ours" else [])
    intervened(model, ids[:, :128], ablate(0))()  # what is loaded on first use
    gc.collect()
    before = memory_mb("VmRSS")
    run()
    queue.put(memory_mb("VmHWM") - before)


LENGTHS = (2048, 4096, 8192)


def memory() -> list[Row]:
    """Return how memory grows when the text is twice as long: twice is linear."""
    context = multiprocessing.get_context("spawn")

    def peaks(name: str, what: str, lengths: Sequence[int]) -> list[float]:
        found = []
        for length in lengths:
            queue = context.Queue()
            process = context.Process(target=peak_of_one_run, args=(name, what, length, queue))
            process.start()
            found.append(queue.get(timeout=600))
            process.join()
        return found

    def growth(what: str, mb: list[float], bound: float | None) -> list[Row]:
        pairs = zip(LENGTHS, mb, mb[1:], strict=False)
        return [Row(f"memory: {what}", f"{2 * n} / 2 × {n} tokens", b, 2 * a, "MB", bound) for n, a, b in pairs]

    ours = {what: peaks("ours", what, LENGTHS) for what in INTERVENTIONS}
    some = "knockout of 16 keys for all rows"
    rows = growth("no intervention", peaks("plain", some, LENGTHS), None)
    for what, mb in ours.items():
        rows += growth(what, mb, 1.1)
    eager = peaks("eager", some, LENGTHS[:2])
    rows += growth(f"{some}, edited by hand on eager attention", eager, None)
    return [*rows, Row(f"memory: {some}, ours / eager", f"{LENGTHS[1]} tokens", ours[some][1], eager[1], "MB")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("exactness", "speed", "memory"), help="Run one part only.")
    parser.add_argument("families", nargs="*", help="Families of transformers to check; default: all of the list.")
    options = parser.parse_args()
    import transformers

    transformers.logging.set_verbosity_error()
    one_thread()
    parts: dict[str, list[Callable[[], list[Row]]]] = {
        "exactness": [lambda family=family: exactness(family) for family in options.families or FAMILIES],
        "speed": [speed],
        "memory": [memory],
    }
    chosen = parts.values() if options.only is None else [parts[options.only]]
    rows = steps([step for part in chosen for step in part])
    report("intervene" if options.only is None else f"intervene-{options.only}", "Interventions", rows)


if __name__ == "__main__":
    main()
