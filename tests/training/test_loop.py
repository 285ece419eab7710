"""The loop: the same whatever happens in between."""

import json
import os
import signal
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard import models
from regard.training import Interrupted, Loop, Ranks, RunConfig, Settings, prepare, read_metrics
from regard.training.checkpoint import latest, load_checkpoint
from regard.training.data.batches import Order, part
from regard.training.loop import evaluate

ALONE = Ranks(0, 1, torch.device("cpu"))
TIMES = ("seconds", "tokens_per_second")


def loop(plan: RunConfig, folder: Path, shown: Callable[[dict[str, Any]], None] = lambda row: None) -> Loop:
    folder.mkdir(exist_ok=True)
    made = prepare(plan)
    return Loop(made.objective, made.model, made.learn, made.watch, plan.settings, folder, ALONE, shown)


def interrupting(step: int) -> Callable[[dict[str, Any]], None]:
    """Ctrl-C, once, after this step."""
    left = [step]

    def shown(row: dict[str, Any]) -> None:
        if left and row["step"] >= left[0]:
            left.clear()
            os.kill(os.getpid(), signal.SIGINT)

    return shown


def measured(folder: Path) -> list[dict[str, Any]]:
    rows = read_metrics(folder / "metrics.jsonl")
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


class TestResume:
    @pytest.mark.parametrize("model", ["transformer", "lstm-attention"])
    def test_interrupted_and_resumed_is_never_interrupted(self, model: str, tiny: Any, tmp_path: Path) -> None:
        plan = tiny(model, steps=30, sizes={"dropout": 0.2})
        whole = loop(plan, tmp_path / "whole").run()
        with pytest.raises(Interrupted):
            loop(plan, tmp_path / "parts", interrupting(10)).run()
        stopped = latest(tmp_path / "parts" / "checkpoints")
        assert stopped is not None
        assert int(stopped.name) == 10
        with pytest.raises(Interrupted):
            loop(plan, tmp_path / "parts", interrupting(20)).run()
        parts = loop(plan, tmp_path / "parts").run()

        for name in ("checkpoints/00000030/state.safetensors", "model.safetensors", "model.json"):
            assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes(), name
        assert measured(tmp_path / "whole") == measured(tmp_path / "parts")
        assert (whole.best, whole.best_step, whole.tokens) == (parts.best, parts.best_step, parts.tokens)

    def test_work_after_the_last_checkpoint_is_done_again(self, tiny: Any, tmp_path: Path) -> None:
        plan = tiny(steps=20, checkpoint_every=8)

        class Killed(BaseException):
            pass

        def shown(row: dict[str, Any]) -> None:
            if row["step"] >= 12:
                raise Killed

        loop(plan, tmp_path / "whole").run()
        with pytest.raises(Killed):
            loop(plan, tmp_path / "parts", shown).run()
        assert {row["step"] for row in measured(tmp_path / "parts")} == {4, 8, 10, 12}
        loop(plan, tmp_path / "parts").run()
        assert measured(tmp_path / "parts") == measured(tmp_path / "whole")
        weights = "checkpoints/00000020/state.safetensors"
        assert (tmp_path / "whole" / weights).read_bytes() == (tmp_path / "parts" / weights).read_bytes()

    def test_another_seed_is_another_run(self, tiny: Any, tmp_path: Path) -> None:
        for seed in (0, 1):
            loop(tiny(seed=seed), tmp_path / str(seed)).run()
        assert measured(tmp_path / "0") != measured(tmp_path / "1")

    def test_the_checkpoint_holds_tensors_and_json_alone(self, tiny: Any, tmp_path: Path) -> None:
        loop(tiny(), tmp_path / "run").run()
        folder = tmp_path / "run" / "checkpoints" / "00000012"
        assert sorted(path.name for path in folder.iterdir()) == ["state.json", "state.safetensors"]
        tensors, state = load_checkpoint(folder)
        assert state["step"] == 12
        kinds = {name.split(".")[0] for name in tensors}
        assert kinds >= {"weights", "optimizer"}
        assert [path.name for path in folder.parent.iterdir()] == ["00000012"]

    def test_a_checkpoint_of_another_model_is_refused(self, tiny: Any, tmp_path: Path) -> None:
        loop(tiny(), tmp_path / "run").run()
        with pytest.raises(ValueError, match="the checkpoint is of another model"):
            loop(tiny(sizes={"layers": 2}), tmp_path / "run").run()
        with pytest.raises(ValueError, match="the checkpoint is of another model"):
            loop(tiny(sizes={"d_model": 32}), tmp_path / "run").run()

    def test_a_damaged_checkpoint_is_said(self, tiny: Any, tmp_path: Path) -> None:
        loop(tiny(), tmp_path / "run").run()
        file = tmp_path / "run" / "checkpoints" / "00000012" / "state.safetensors"
        file.write_bytes(file.read_bytes()[:-9])
        with pytest.raises(ValueError, match="00000012 is damaged"):
            loop(tiny(), tmp_path / "run").run()

    def test_the_callers_random_numbers_and_handlers_are_left_alone(self, tiny: Any, tmp_path: Path) -> None:
        made = loop(tiny(), tmp_path / "run")
        state, handler = torch.random.get_rng_state(), signal.getsignal(signal.SIGINT)
        made.run()
        assert torch.equal(torch.random.get_rng_state(), state)
        assert signal.getsignal(signal.SIGINT) is handler

    def test_outside_the_main_thread(self, tiny: Any, tmp_path: Path) -> None:
        found: list[Any] = []
        made = loop(tiny(), tmp_path / "run")
        thread = threading.Thread(target=lambda: found.append(made.run()))
        thread.start()
        thread.join()
        assert found[0].step == 12


class TestLearning:
    def test_the_loss_falls_and_the_best_model_is_kept(self, tiny: Any, tmp_path: Path) -> None:
        plan = tiny(steps=60, sizes={"dropout": 0.0}, evaluate_every=20, checkpoint_every=1000)
        state = loop(plan, tmp_path / "run").run()
        rows = measured(tmp_path / "run")
        held = [row for row in rows if row["split"] == "valid"]
        learnt = [row["loss"] for row in rows if row["split"] == "train"]
        assert learnt[-1] < 0.6 * learnt[0]
        assert state.best == min(row["loss"] for row in held)
        assert state.best_step == min(held, key=lambda row: row["loss"])["step"]
        made = prepare(plan)
        made.model.load_state_dict(models.load(tmp_path / "run").state_dict())
        assert evaluate(made.objective, made.watch, plan.settings, ALONE) == pytest.approx(state.best, abs=1e-6)

    def test_rounds_of_accumulation_add_up_to_the_batch(self, tiny: Any, tmp_path: Path) -> None:
        for rounds in (1, 4):
            loop(tiny(accumulate=rounds, sizes={"dropout": 0.0}), tmp_path / str(rounds)).run()
        one, four = (measured(tmp_path / str(rounds)) for rounds in (1, 4))
        for a, b in zip(one, four, strict=True):
            assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
            assert a.get("gradient_norm") == pytest.approx(b.get("gradient_norm"), abs=1e-4)

    def test_patience(self, tiny: Any, tmp_path: Path) -> None:
        plan = tiny(steps=400, learning_rate=0.3, warmup=0, clip=1e6, evaluate_every=2, patience=3)
        state = loop(plan, tmp_path / "run").run()
        assert state.since_best == 3
        assert state.step == state.best_step + 6 < 400

    def test_minutes(self, tiny: Any, tmp_path: Path) -> None:
        state = loop(tiny(steps=None, minutes=0.02), tmp_path / "run").run()
        assert state.step > 1
        assert state.seconds >= 1.2
        assert measured(tmp_path / "run")[-1]["split"] == "valid"
        assert (tmp_path / "run" / "model.safetensors").exists()

    def test_mixed_precision(self, tiny: Any, tmp_path: Path) -> None:
        losses = []
        for precision in ("float32", "bfloat16"):
            loop(tiny(precision=precision, sizes={"dropout": 0.0}), tmp_path / precision).run()
            losses.append(measured(tmp_path / precision)[-1]["loss"])
        assert losses[0] == pytest.approx(losses[1], rel=0.02)
        assert losses[0] != losses[1]

    def test_a_model_stored_in_half_the_bytes(self, tiny: Any, tmp_path: Path) -> None:
        for store in ("float32", "float16"):
            loop(tiny(store=store), tmp_path / store).run()
        single, half = (load_file(tmp_path / store / "model.safetensors") for store in ("float32", "float16"))
        assert {value.dtype for value in half.values()} == {torch.float16}
        for name, value in single.items():
            torch.testing.assert_close(half[name].float(), value, atol=1e-3, rtol=1e-3)

    def test_a_loss_that_is_no_number_stops_the_run(self, tiny: Any, tmp_path: Path) -> None:
        plan = tiny(steps=200, learning_rate=1e30, warmup=0, clip=1e30)
        with pytest.raises(ValueError, match="try a lower learning rate than 1e\\+30; the last checkpoint is intact"):
            loop(plan, tmp_path / "run").run()

    def test_tensorboard(self, tiny: Any, tmp_path: Path) -> None:
        pytest.importorskip("tensorboard")
        from dataclasses import replace

        replace(loop(tiny(), tmp_path / "run"), tensorboard=True).run()
        files = list((tmp_path / "run" / "tensorboard").iterdir())
        assert files
        assert b"loss/valid" in files[0].read_bytes()


class TestOrder:
    def test_an_epoch_takes_every_example_once(self) -> None:
        order = Order([n % 17 for n in range(640)], batch=16, seed=3)
        epochs = [[order(step) for step in range(40 * e, 40 * (e + 1))] for e in (0, 1)]
        for epoch in epochs:
            assert sorted(i for batch in epoch for i in batch) == list(range(640))
        assert epochs[0] != epochs[1]

    def test_like_with_like(self) -> None:
        lengths = [n % 17 for n in range(640)]
        order = Order(lengths, batch=16, seed=3)
        spread = [max(lengths[i] for i in order(step)) - min(lengths[i] for i in order(step)) for step in range(40)]
        assert max(spread) <= 1

    def test_any_step_can_be_asked_first(self) -> None:
        there = Order(list(range(100)), batch=8, seed=0)
        assert [there(step) for step in (40, 3)] == [Order(list(range(100)), batch=8, seed=0)(step) for step in (40, 3)]

    def test_less_data_than_a_batch(self) -> None:
        assert (
            sorted(Order([1, 2, 3], batch=8, seed=0)(5)) == sorted([0, 1, 2, 0, 1, 2, 0, 1])
            or len(Order([1, 2, 3], batch=8, seed=0)(5)) == 8
        )

    def test_parts_are_the_whole(self) -> None:
        batch = list(range(12))
        assert sorted(i for n in range(4) for i in batch[part(n, 4)]) == batch

    def test_no_data(self) -> None:
        with pytest.raises(ValueError, match="nothing to learn from"):
            Order([], batch=8, seed=0)


class TestSettings:
    def test_the_rate_rises_and_falls(self) -> None:
        settings = Settings(steps=1000, warmup=50, learning_rate=2.0, floor=0.1)
        rates = [settings.rate(step) for step in range(1000)]
        assert rates.index(max(rates)) in range(40, 60)
        assert max(rates) == pytest.approx(2.0, rel=0.02)
        assert rates[-1] == pytest.approx(0.2, rel=0.01)
        assert all(a >= b for a, b in pairwise(rates[60:]))

    def test_it_follows_the_clock_when_minutes_are_given(self) -> None:
        settings = Settings(steps=None, minutes=2.0, warmup=0, floor=0.0)
        assert settings.rate(10**6, 0.0) == 1e-3
        assert settings.rate(1, 60.0) == pytest.approx(0.5e-3)
        assert settings.share(5, 120.0) == 1

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"steps": 0}, "steps must be at least 1, got 0"),
            ({"minutes": -1.0}, "minutes must be more than 0"),
            ({"steps": None}, "say how long"),
            ({"batch": 10, "accumulate": 3}, "accumulate must divide the batch, got 3 rounds for 10"),
            ({"precision": "int8"}, "precision must be float32 or bfloat16, got 'int8'"),
            ({"learning_rate": 0.0}, "learning_rate must be more than 0"),
        ],
    )
    def test_mistakes_are_named(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Settings(**wrong)


def test_metrics_are_one_json_object_a_line(tiny: Any, tmp_path: Path) -> None:
    loop(tiny(), tmp_path / "run").run()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["step"] for row in rows if row["split"] == "valid"] == [4, 8, 12]
    learnt = [row for row in rows if row["split"] == "train"]
    assert {"loss", "learning_rate", "gradient_norm", "seconds", "tokens_per_second"} <= set(learnt[0])
