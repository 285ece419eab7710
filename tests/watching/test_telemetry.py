"""Telemetry measures the steps of an optimizer, changes nothing, and reports what degenerates before the loss does."""

import copy
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.watching import read_telemetry
from regard.watching.training_telemetry.alarms import Alarm, AlarmRules
from regard.watching.training_telemetry.measurements import Measurement
from support.small_models import decoder, encoder, tokens


def train(model: nn.Module, loss: Callable[[], Tensor], steps: int, lr: float = 0.01) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def test_every_nth_step_is_measured_and_nothing_changes(tmp_path: Path) -> None:
    x = tokens(3, 12)
    plain = decoder()
    measured = copy.deepcopy(plain)
    expected = train(plain, lambda: plain(x).logsumexp(-1).mean(), 7)
    file = tmp_path / "telemetry.jsonl"
    with regard.telemetry(measured, every=3, file=file, items=3) as telemetry:
        with regard.watch(measured) as seen:
            first = measured(x).logsumexp(-1).mean()
        del first
        losses = train(measured, lambda: measured(x).logsumexp(-1).mean(), 7)
    assert losses == expected
    assert [x.step for x in telemetry.measurements] == [0, 0, 3, 3, 6, 6]
    assert telemetry.step == 7
    row = telemetry.measurements[1]
    assert row.module == "layers.1.attention"
    assert row.dead == [False] * 4
    torch.testing.assert_close(torch.tensor(row.entropy), seen[1].entropy().mean((0, 2)), atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.tensor(row.largest), seen[1].largest().amax((0, 2)), atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.tensor(row.sink), seen[1].mass(0).mean((0, 2)), atol=1e-5, rtol=0)
    assert read_telemetry(file) == [json.loads(json.dumps(x.to_json())) for x in telemetry.measurements]
    train(measured, lambda: measured(x).logsumexp(-1).mean(), 3)  # after the end nothing is measured
    assert telemetry.step == 7


def test_evaluations_and_accumulated_batches_are_not_measured() -> None:
    model, x = encoder(), tokens(2, 9)
    other = torch.optim.SGD([nn.Parameter(torch.ones(1))])
    optimizer = torch.optim.SGD(model.parameters())
    with regard.telemetry(model, every=1) as telemetry:
        for _ in range(2):
            with torch.no_grad():
                model(tokens(5, 4))
            for _ in range(3):
                model(x).square().mean().backward()
            other.step()
            optimizer.step()
    assert [(x.step, x.module) for x in telemetry.measurements] == [
        (step, f"layers.{n}.attention") for step in (0, 1) for n in (0, 1)
    ]


class Gpt(nn.Module):
    """One layer of attention, in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way, self.num_heads = way, 4
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (4, 4)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if self.way == "folded":
            parts = (y.flatten(0, 1) for y in (q, k, v))
            y = nn.functional.scaled_dot_product_attention(*parts, is_causal=True).unflatten(0, (len(x), 4))
        elif self.way == "eager":
            y = (q @ k.mT / 2).softmax(-1) @ v
        else:
            y = regard.attend(q, k, v, regard.masks.causal())
        return self.out(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("way", ["attend", "folded", "eager"])
def test_ways_of_attending_and_dead_heads(way: str) -> None:
    model, x = Gpt(way), torch.randn(3, 7, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.qkv.weight[32 + 8 : 32 + 12] = 0  # the values of head 2
    with regard.telemetry(model, every=1) as telemetry:
        train(model, lambda: model(x).square().mean(), 1, lr=1e-9)
    (row,) = telemetry.measurements
    assert row.dead == [False, False, True, False]
    assert (row.largest is None) == (way == "eager")
    assert all(0 < x < 2 for x in row.entropy if x is not None)
    assert len(row.entropy) == 4


def test_a_run_that_resumes_continues_its_file(tmp_path: Path) -> None:
    model, x, file = decoder(), tokens(1, 5), tmp_path / "telemetry.jsonl"
    for start, steps in ((0, 5), (3, 2)):
        with regard.telemetry(model, every=1, file=file, step=start):
            train(model, lambda: model(x).square().mean(), steps)
    assert [row["step"] for row in read_telemetry(file) if row["module"] == "layers.0.attention"] == [0, 1, 2, 3, 4]


def test_a_collapse_is_reported_before_the_loss_diverges() -> None:
    """The learning rate grows until the training fails; queries and keys are not normalized."""
    torch.manual_seed(0)
    sizes = {"d_model": 32, "heads": 4, "layers": 2, "dropout": 0.0, "norm": "pre"}
    model = regard.models.Decoder(regard.models.DecoderConfig(20, **sizes))
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randint(5, 20, (8, 33))
    losses: list[float] = []
    alarms: list[Alarm] = []
    with regard.telemetry(model, every=5, on_alarm=alarms.append):
        for step in range(80):
            optimizer.param_groups[0]["lr"] = 1e-3 * 1.1**step
            optimizer.zero_grad()
            loss = model.loss(x[:, :-1], x[:, 1:])
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
    diverged = next(step for step, value in enumerate(losses) if value > losses[0])
    assert 0 < alarms[0].step < diverged - 5
    assert alarms[0].module.startswith("layers.")
    assert "Lower the learning rate" in str(alarms[0])


def test_alarms_name_the_head_once_until_it_recovers() -> None:
    rules = AlarmRules()

    def check(step: int, entropy: float | None, largest: float | None) -> list[tuple[int, str, int]]:
        alarms = rules.check(Measurement(step, "layer", [2.0, entropy], [1.0, largest], [0.0, 0.0], None))
        return [(x.step, x.kind, x.head) for x in alarms]

    assert check(0, 2.0, 3.0) == []
    assert check(1, 0.5, 40.0) == []  # a head that has learnt to attend to one token
    assert check(2, 0.3, 70.0) == [(2, "growing scores", 1)]
    assert check(3, 0.001, 90.0) == [(3, "entropy collapse", 1)]
    assert check(4, 2.0, 3.0) == []
    assert check(5, None, 3.0) == [(5, "not finite", 1)]
    assert check(6, 2.0, 70.0) == [(6, "growing scores", 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every must be a whole number of at least 1, got 0"),
        ({"score_limit": 0.0}, "greater than 0, got"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regard.telemetry(decoder(), **options)


def test_a_model_that_does_not_attend() -> None:
    model = nn.Linear(4, 4)
    with pytest.warns(UserWarning, match="saw no attention call"), regard.telemetry(model, every=1):
        train(model, lambda: model(torch.ones(1, 4)).sum(), 1)


def test_transformers_trainer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from regard.watching import TelemetryCallback

    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 20, "n_positions": 8}
    config = transformers.GPT2Config(**sizes, bos_token_id=1, eos_token_id=1)
    model = transformers.GPT2LMHeadModel(config)
    data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(8)]
    callback = TelemetryCallback(every=2, file=tmp_path / "telemetry.jsonl")
    options = {"max_steps": 4, "per_device_train_batch_size": 2, "logging_steps": 1, "report_to": [], "use_cpu": True}
    arguments = transformers.TrainingArguments(str(tmp_path), **options, save_strategy="no", disable_tqdm=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = transformers.Trainer(model, arguments, train_dataset=data, callbacks=[callback])
        trainer.train()
    assert callback.telemetry is not None
    assert [x.step for x in callback.telemetry.measurements] == [0, 2]
    assert "attention_entropy" in trainer.state.log_history[-2]
