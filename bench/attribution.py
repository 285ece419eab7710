"""Attribution, head atlas and telemetry: `python bench/attribution.py [--only NAME]`.

exactness    relevance and importance against autograd on eager attention, transformers families, 512 tokens
memory       peak memory of relevance above that of the forward pass, 8,192 tokens
atlas        induction heads of the shipped model `repeats` against the rise of the loss without each head
detectors    scores against TransformerLens' head detector on that model, 512 tokens (where transformer-lens is
             installed; it is not a dependency)
overhead     tokens per second with telemetry every 50 steps, divided by those without
collapse     steps from the first alarm of telemetry to the step at which the loss is above its first value
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from side_by_side import RESULTS, machine, memory_mb, one_thread
from torch import Tensor

import regard
from regard.models import Decoder, DecoderConfig

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.reference_attribution import FAMILIES, build, inputs, reference, target

LENGTH, LONG, LIMIT_MB = 512, 8192, 300
Result = tuple[str, str, float, str, bool]  # what, at, value, bound, whether it is met


def exactness() -> Iterator[Result]:
    """Yield the largest differences of relevance and importance from autograd on eager attention."""
    for family in FAMILIES:
        fused, eager = build(family, LENGTH)
        arguments = inputs(family, LENGTH)
        expected = reference(eager, arguments, 0 if family == "vit" else -1)
        with regard.watch(fused) as seen:
            goal = target(fused(**arguments))
        relevance = float((seen.relevance(goal) - expected.relevance).abs().max())
        if expected.source is not None:
            relevance = max(relevance, float((seen.relevance(goal, source=True) - expected.source).abs().max()))
        importance = float((seen.importance(goal.sum()) - expected.importance).abs().max())
        size = float(expected.importance.abs().max())
        for what, value in (("relevance", relevance), (f"importance (largest {size:.2g})", importance)):
            yield f"{what}: largest difference", f"{family}, {LENGTH} tokens", value, "≤ 1e-5", value <= 1e-5


def long_model() -> Decoder:
    """Return a decoder of 4 layers, 256 wide, 4 heads, for LONG tokens."""
    torch.manual_seed(0)
    sizes = {"d_model": 256, "heads": 4, "layers": 4, "context": LONG, "positions": "rotary", "dropout": 0.0}
    return Decoder(DecoderConfig(1000, **sizes)).eval()


def peak(relevance: bool, queue: Any) -> None:
    """Put the peak memory in MB of a forward pass with gradients, and of relevance after it, into the queue."""
    one_thread()
    model = long_model()
    ids = torch.randint(1000, (1, LONG), generator=torch.Generator().manual_seed(1))
    with regard.watch(model) as seen:
        states = model.states(ids)
    goal = (states[0, -1] * model.table[7]).sum()
    forward = memory_mb("VmHWM")
    if relevance:
        seen.relevance(goal)
    queue.put((forward, memory_mb("VmHWM")))


def memory() -> Iterator[Result]:
    """Yield the peak memory of relevance above the peak of the forward pass."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=peak, args=(True, queue))
    process.start()
    forward, total = queue.get()
    process.join()
    above = total - forward
    at = f"4 layers, 256 wide, {LONG:,} tokens; forward {forward:.0f} MB"
    yield "relevance: peak above forward (MB)", at, above, f"≤ {LIMIT_MB}", above <= LIMIT_MB


INDUCTION_SHARE = 0.1  # of what repetition gains; fixed before the heads were measured


def rises_without_each_head(model: Decoder, ids: Tensor, unit: int) -> Tensor:
    """Return by how much the loss of the repeated tokens rises without each head, as a share of what repetition gains.

    A head is removed by setting its columns of the output projection to 0. Neither the atlas, its tests nor
    `regard.intervene` is used. The result has the shape (layers, heads).
    """

    def losses() -> tuple[float, float]:
        with torch.no_grad():
            scores = model(ids)[:, :-1].log_softmax(-1)
        all_losses = -scores.gather(-1, ids[:, 1:, None])[..., 0]
        return float(all_losses[:, : unit - 1].mean()), float(all_losses[:, unit:].mean())

    first, repeated = losses()
    heads = model.config.heads
    rises = torch.zeros(len(model.layers), heads)
    for number, layer in enumerate(model.layers):
        weight = layer.attention.out.weight.data
        columns = weight.clone()
        for head in range(heads):
            weight.unflatten(1, (heads, -1))[:, head] = 0.0
            rises[number, head] = (losses()[1] - repeated) / (first - repeated)
            weight.copy_(columns)
    return rises


def atlas() -> Iterator[Result]:
    """Yield precision and recall of the induction heads of the atlas, over several random inputs.

    The truth is apart from the atlas: a head is an induction head if without it the loss of the second half of random
    sequences that repeat, from other seeds than those of the atlas, rises by `INDUCTION_SHARE` of what repetition
    gains. Heads of the first layer that prepare induction are needed in the same way; without them the comparison has
    rows of its own.
    """
    run = regard.training.load("repeats")
    model, words = run.model.eval(), run.tokenizer.size
    counts = {part: [0, 0, 0] for part in ("all heads", "heads after layer 0")}  # right, labelled, true
    total = torch.zeros(len(model.layers), model.config.heads)
    seeds = 5
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(1000 + seed)
        units = torch.stack([5 + torch.randperm(words - 5, generator=generator)[:64] for _ in range(32)])
        rises = rises_without_each_head(model, units.repeat(1, 2), 64)
        total += rises / seeds
        true = {(int(i), int(j)) for i, j in (rises > INDUCTION_SHARE).nonzero()}
        labelled = set(regard.atlas(model, run.tokenizer, seed=seed, progress=False).labelled("induction"))
        for part, first in (("all heads", 0), ("heads after layer 0", 1)):
            a, b = ({head for head in heads if head[0] >= first} for heads in (labelled, true))
            counts[part] = [x + len(y) for x, y in zip(counts[part], (a & b, a, b), strict=True)]
    print("atlas: mean rise without each head, by layer:", file=sys.stderr)
    for number, row in enumerate(total.tolist()):
        print(f"  {number}: " + " ".join(f"{100 * x:5.1f}%" for x in row), file=sys.stderr)
    for part, (right, labelled_count, true_count) in counts.items():
        at = f"repeats, {part}, {seeds} seeds; {true_count} needed, {labelled_count} labelled"
        for name, value in (("precision", right / max(1, labelled_count)), ("recall", right / max(1, true_count))):
            yield f"atlas: {name} of induction heads", at, value, "≥ 0.9", value >= 0.9


def detectors() -> Iterator[Result]:
    """Yield whether both detectors rank the heads alike."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            from transformer_lens import HookedTransformer, HookedTransformerConfig
            from transformer_lens.head_detector import detect_head
    except ImportError:
        print("detectors: transformer-lens is not installed, skipped", file=sys.stderr)
        return
    run = regard.training.load("repeats")
    model: Any = run.model.eval()
    lens = hooked(model, HookedTransformer, HookedTransformerConfig)
    generator = torch.Generator().manual_seed(0)
    unit = 5 + torch.randperm(run.tokenizer.size - 5, generator=generator)[:64]
    ids = unit.repeat(LENGTH // 64)[None]
    difference = float((lens(ids, return_type="logits") - model(ids)).detach().abs().max())
    print(f"detectors: the two implementations differ by at most {difference:.1e} in their output", file=sys.stderr)
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    tokens = ids[0]
    same = tokens[:, None] == tokens
    patterns = {
        "previous_token_head": torch.eye(LENGTH).roll(1, 0).tril(-1),
        "duplicate_token_head": same.tril(-1).float(),
        "induction_head": torch.nn.functional.pad(same.tril(-1).float(), (1, 0))[:, :-1].tril(-1),
    }
    lens.to_tokens = lambda *_, **__: ids  # the detector encodes a text
    for name, pattern in patterns.items():
        theirs = detect_head(lens, "text", name, error_measure="mul").flatten()
        ours = []
        for call in seen.calls:
            total = torch.zeros(call.shape[1])
            for block in call.weight_blocks():
                total[block.heads] += (block.weights * pattern[block.rows, block.keys]).sum((0, -2, -1))
            ours.append(total / LENGTH)
        mine = torch.cat(ours)
        equal = bool((mine.argsort() == theirs.cpu().argsort()).all())
        gap = float((mine - theirs.cpu()).abs().max())
        yield f"{name}: same ranking; largest difference", f"repeats, {LENGTH} tokens", gap, "same ranking", equal


def hooked(model: Any, kind: Any, config_kind: Any) -> Any:
    """Return a model of TransformerLens with the sizes of a decoder and its embedding, attention and feed-forward."""
    c = model.config
    config = config_kind(
        n_layers=c.layers, d_model=c.d_model, n_ctx=c.context + 1, d_head=c.d_model // c.heads, n_heads=c.heads,
        d_mlp=c.inner, d_vocab=c.vocabulary, act_fn="gelu", normalization_type="LN", eps=c.epsilon, device="cpu",
        positional_embedding_type="alibi", scale_attn_by_inverse_layer_idx=False, use_attn_scale=True,
    )  # fmt: skip
    lens = kind(config)
    heads, width = c.heads, c.d_model // c.heads
    state: dict[str, Tensor] = {
        "embed.W_E": model.embedding.weight, "unembed.W_U": model.table.T,
        "unembed.b_U": torch.zeros(c.vocabulary), "ln_final.w": model.norm.weight, "ln_final.b": model.norm.bias,
    }  # fmt: skip
    for number, layer in enumerate(model.layers):
        name, attention = f"blocks.{number}.", layer.attention
        for part, weight, bias in zip("QKV", attention.qkv.weight.chunk(3), attention.qkv.bias.chunk(3), strict=True):
            state[f"{name}attn.W_{part}"] = weight.T.unflatten(1, (heads, width)).transpose(0, 1)
            state[f"{name}attn.b_{part}"] = bias.unflatten(0, (heads, width))
        state[f"{name}attn.W_O"] = attention.out.weight.T.unflatten(0, (heads, width))
        state[f"{name}attn.b_O"] = attention.out.bias
        for part, norm in (("ln1", layer.attention_norm), ("ln2", layer.feed_norm)):
            state[f"{name}{part}.w"], state[f"{name}{part}.b"] = norm.weight, norm.bias
        state[f"{name}mlp.W_in"], state[f"{name}mlp.b_in"] = layer.feed.up.weight.T, layer.feed.up.bias
        state[f"{name}mlp.W_out"], state[f"{name}mlp.b_out"] = layer.feed.down.weight.T, layer.feed.down.bias
    if "pos_embed.W_pos" in lens.state_dict():  # ALiBi has no position vectors
        state["pos_embed.W_pos"] = torch.zeros_like(lens.state_dict()["pos_embed.W_pos"])
    missing = lens.load_state_dict({k: v.detach().float() for k, v in state.items()}, strict=False).missing_keys
    unknown = [key for key in missing if not key.endswith(("mask", "IGNORE", "alibi"))]
    assert not unknown, unknown
    return lens


def step_function(model: Decoder, optimizer: Any, ids: Tensor) -> Callable[[], None]:
    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model.loss(ids[:, :-1], ids[:, 1:]).backward()
        optimizer.step()

    return step


def overhead() -> Iterator[Result]:
    """Yield the speed of training with telemetry, as a share of the speed without; blocks of 50 steps take turns."""
    torch.manual_seed(0)
    for width, length, batch in ((128, 128, 8), (256, 512, 4)):
        sizes = {"d_model": width, "heads": 4, "layers": 4, "context": length, "dropout": 0.0, "norm": "pre"}
        model = Decoder(DecoderConfig(1000, **sizes))
        ids = torch.randint(1000, (batch, length + 1))
        step = step_function(model, torch.optim.AdamW(model.parameters()), ids)
        for _ in range(3):
            step()
        with regard.telemetry(model, every=1, on_alarm=lambda alarm: None):
            step()  # compiles
        with_it, without = [], []
        for _ in range(4):
            start = time.process_time()
            for _ in range(50):
                step()
            without.append(time.process_time() - start)
            start = time.process_time()
            with regard.telemetry(model, every=50, on_alarm=lambda alarm: None):
                for _ in range(50):
                    step()
            with_it.append(time.process_time() - start)
        share = min(without) / min(with_it)
        at = f"4 layers, {width} wide, {batch} × {length} tokens"
        yield "telemetry every 50 steps: tokens/s, share of without", at, share, "≥ 0.97", share >= 0.97


def collapse() -> Iterator[Result]:
    """Yield the number of steps between the first alarm and the divergence, for two learning rates that grow."""
    for growth in (1.05, 1.1):
        torch.manual_seed(0)
        sizes = {"d_model": 32, "heads": 4, "layers": 2, "dropout": 0.0, "norm": "pre"}
        model = Decoder(DecoderConfig(20, **sizes))
        optimizer = torch.optim.AdamW(model.parameters())
        ids = torch.randint(5, 20, (8, 33))
        losses: list[float] = []
        alarms: list[Any] = []
        with regard.telemetry(model, every=5, on_alarm=alarms.append):
            while len(losses) < 300 and not (losses and losses[-1] > losses[0]):
                optimizer.param_groups[0]["lr"] = 1e-3 * growth ** len(losses)
                optimizer.zero_grad()
                loss = model.loss(ids[:, :-1], ids[:, 1:])
                losses.append(loss.item())
                loss.backward()
                optimizer.step()
        print(f"collapse: {alarms[0] if alarms else 'no alarm'}; diverged at step {len(losses) - 1}", file=sys.stderr)
        steps = len(losses) - 1 - alarms[0].step if alarms else 0
        yield "collapse: steps of warning", f"learning rate × {growth} each step", float(steps), "> 0", steps > 0


PARTS: dict[str, Callable[[], Iterator[Result]]] = {
    "exactness": exactness, "memory": memory, "atlas": atlas, "detectors": detectors, "overhead": overhead,
    "collapse": collapse,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part only; may be repeated")
    chosen = parser.parse_args().only or list(PARTS)
    one_thread()
    path = RESULTS / "attribution.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": []}
    table = Table(title="Attribution, head atlas and telemetry", caption=f"{machine()}; 1 thread")
    for column in ("what", "at", "value", "bound"):
        table.add_column(column)
    for name in chosen:
        rows = [{"part": name, "what": a, "at": b, "value": c, "bound": d, "met": e} for a, b, c, d, e in PARTS[name]()]
        for row in rows:
            verdict = f"{row['bound']} {'met' if row['met'] else 'missed'}"
            table.add_row(row["what"], row["at"], f"{row['value']:.3g}", verdict)
        content["rows"] = [row for row in content["rows"] if row["part"] != name] + rows
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    RESULTS.mkdir(exist_ok=True)
    content |= {"machine": machine(), "command": "python bench/attribution.py"}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
