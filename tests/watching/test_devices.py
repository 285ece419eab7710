"""Watching a model on an accelerator, simulated: same numbers as on the CPU, no mixed devices, no L×S buffers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard import masks
from regard.attention.positions.alibi import Alibi
from regard.watching.recording import Recording
from tests.support.simulated_device import simulated

Inputs = dict[str, Tensor]


class Attention(nn.Module):
    """Attention between tensors, by `attend`."""

    def __init__(self, options: Callable[[int, Any], dict[str, Any]], length: int = 70, heads: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.options, self.length = options, length
        for name, count in (("q", heads), ("k", heads // 2), ("v", heads // 2)):
            self.register_buffer(name, torch.randn(2, count, length, 8))

    def forward(self) -> Tensor:
        return regard.attend(self.q, self.k, self.v, **self.options(self.length, self.q.device))


class Sdpa(Attention):
    """Attention by torch's fused function, with a mask that depends on `options`."""

    def forward(self) -> Tensor:
        options = self.options(self.length, self.q.device)
        return F.scaled_dot_product_attention(self.q, self.k, self.v, enable_gqa=True, **options)


class Eager(nn.Module):
    """Attention written by hand: softmax, then a product with the values."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.num_heads = nn.Linear(16, 48), 4

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (4, 4)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        w = (q @ k.transpose(-1, -2) / 2).softmax(-1)
        return (w @ v).transpose(1, 2).flatten(2)


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return build().eval()


def ids(length: int, device: Any) -> Tensor:
    return (torch.arange(2 * length, device=device) // 20).view(2, length)


X = {"x": torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(0))}
MODELS: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "no mask": (lambda: Attention(lambda n, d: {}), {}),
    "causal": (lambda: Attention(lambda n, d: {"mask": masks.causal()}), {}),
    "window": (lambda: Attention(lambda n, d: {"mask": masks.window(keys=9) | masks.prefix(2)}), {}),
    "lengths": (lambda: Attention(lambda n, d: {"mask": masks.padding(torch.tensor([n // 3, n], device=d))}), {}),
    "documents": (lambda: Attention(lambda n, d: {"mask": masks.documents(ids(n, d)) & masks.causal()}), {}),
    "boolean": (lambda: Attention(lambda n, d: {"mask": torch.eye(n, device=d).bool().roll(3, 0)}), {}),
    "alibi": (lambda: Attention(lambda n, d: {"mask": masks.causal(), "bias": Alibi(4)}), {}),
    "bias": (lambda: Attention(lambda n, d: {"bias": torch.linspace(0, 9, n * n, device=d).view(n, n)}), {}),
    "sdpa": (lambda: Sdpa(lambda n, d: {"is_causal": True}), {}),
    "sdpa mask": (lambda: Sdpa(lambda n, d: {"attn_mask": torch.ones(n, n, device=d).tril().bool()}), {}),
    "eager": (Eager, X),
    "sinks": (lambda: regard.nn.MultiHeadAttention(16, 4, 2, sinks=True, causal=True), X),
    "rotary": (lambda: regard.nn.MultiHeadAttention(16, 4, 2, rotary=True, causal=True), X),
    "native layer": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), {"src": X["x"]}),
    "native attention": (
        lambda: nn.MultiheadAttention(16, 4, batch_first=True), dict.fromkeys(("query", "key", "value"), X["x"])
    ),
}  # fmt: skip


def results(seen: Recording) -> dict[str, Tensor]:
    """Return everything that can be asked of the recording."""
    tensors: dict[str, Tensor] = {}
    for n, call in enumerate(seen.calls):
        last = call.shape[3] - 1
        values = {
            "weights": call.weights(),
            "some weights": call.weights(batch=1, head=[2, 0], queries=slice(1, None, 2), keys=[last, 0]),
            "entropy": call.entropy(), "distance": call.distance(), "spread": call.statistics.spread,
            "sink": call.statistics.sink, "empty": call.statistics.empty, "received": call.received(),
            "mass": call.mass([0, last]), "previous": call.at_offset(-1), "next": call.at_offset(1),
            "top": call.top(3)[0], "no key": call.sink(), "visible": call.visible(1),
        }  # fmt: skip
        assert {str(x.device) for x in values.values()} == {str(call.like.device)}, values
        if call.eager_weights is None:
            values["lse"] = call.lse
        tensors |= {f"{name} of call {n}": x for name, x in values.items()}
    return tensors


@pytest.mark.parametrize("float64", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_a_watched_model_gives_the_same_numbers_as_on_the_cpu(name: str, float64: bool) -> None:
    build, inputs = MODELS[name]
    model = seeded(build)
    with torch.no_grad(), regard.watch(model) as seen:
        model(**inputs)
    expected, summary, checks = results(seen), seen.summary(), [str(x) for x in seen.check()]
    rollout = seen.rollout()
    with torch.no_grad(), simulated(float64=float64):
        model.to("sim")
        moved = {key: x.to("sim") for key, x in inputs.items()}
        with regard.watch(model) as seen:
            model(**moved)
        found = {key: x.cpu() for key, x in results(seen).items()}
        assert [str(x) for x in seen.check()] == checks
        torch.testing.assert_close(seen.rollout().cpu(), rollout, atol=1e-5, rtol=1e-4)
        found_summary = seen.summary()
        seen.table()
    spread = {key for key in expected if key.startswith("spread")}  # less precise on the CPU
    for key in expected.keys() & found.keys():  # nn.MultiheadAttention may leave its fast path on the device
        x = expected[key]
        torch.testing.assert_close(found[key], x, atol=2e-3 if key in spread else 1e-4, rtol=1e-4, check_dtype=False)
    for row, other in zip(found_summary, summary, strict=True):
        assert row.keys() == other.keys()
        assert row == pytest.approx(other, abs=1e-3)


@pytest.mark.parametrize("keep", ["copies", "statistics"])
@pytest.mark.parametrize("name", ["causal", "documents", "eager", "native layer", "sinks"])
def test_copies_and_statistics(name: str, keep: Any) -> None:
    build, inputs = MODELS[name]
    model = seeded(build)
    with torch.no_grad(), regard.watch(model, keep=keep) as seen:
        model(**inputs)
    expected = seen.calls[0].statistics
    with torch.no_grad(), simulated(float64=False):
        model.to("sim")
        with regard.watch(model, keep=keep) as seen:
            model(**{key: x.to("sim") for key, x in inputs.items()})
        found = seen.calls[0].statistics
        for column in ("entropy", "position", "spread", "sink"):
            error = (getattr(found, column).cpu() - getattr(expected, column)).abs().max()
            assert error < (2e-3 if column == "spread" else 1e-4)


@pytest.mark.parametrize("extension", ["html", "png"])
def test_pictures_move_to_the_cpu(tmp_path: Path, extension: str) -> None:
    model = seeded(MODELS["causal"][0])
    with torch.no_grad(), simulated(float64=False):
        model.to("sim")
        with regard.watch(model) as seen:
            model()
        assert seen.save(tmp_path / f"heads.{extension}").stat().st_size > 1000


LINEAR: dict[str, Callable[[Any], object]] = {
    "statistics": lambda call: call.statistics,
    "received": lambda call: call.received(),
    "top": lambda call: call.top(3),
    "mass": lambda call: call.mass([0, 3]),
    "at_offset": lambda call: call.at_offset(-1),
    "weights of one query": lambda call: call.weights(queries=3),
    "weights of one head": lambda call: call.weights(head=1, queries=[0, 5]),
}


@pytest.mark.parametrize("compute", LINEAR)
@pytest.mark.parametrize("name", ["causal", "documents", "sdpa"])
def test_memory_is_linear_and_the_host_waits_a_constant_number_of_times(name: str, compute: str) -> None:
    options = MODELS[name][0]().options
    kind = Sdpa if name == "sdpa" else Attention
    largest, syncs = [], []
    for length, heads in ((256, 4), (512, 4), (256, 8)):
        with torch.no_grad(), simulated() as device:
            model = kind(options, length, heads).to("sim")
            with regard.watch(model) as seen:
                model()
            device.largest = device.syncs = 0
            LINEAR[compute](seen.calls[0])
            largest.append(device.largest)
            syncs.append(device.syncs)
    assert largest[1] <= 2.3 * largest[0], device.largest_from
    assert len(set(syncs)) == 1, device.places
    assert syncs[0] <= 4, device.places


def test_the_checks_wait_for_the_device_as_often_for_many_heads_as_for_few() -> None:
    syncs = []
    for heads in (4, 16):
        with torch.no_grad(), simulated() as device:
            model = Attention(lambda n, d: {"mask": masks.causal()}, 64, heads).to("sim")
            with regard.watch(model) as seen:
                model()
            device.syncs = 0
            seen.check(causal=True, padding=[64, 64])
            seen.summary()
            syncs.append(device.syncs)
    assert syncs[0] == syncs[1], device.places
