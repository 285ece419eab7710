"""The training loop: exact resuming, evaluation, checkpoints, metrics, settings."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard import models
from regard.training import Settings, read_metrics
from regard.training.checkpoint import latest_checkpoint, load_checkpoint
from regard.training.data.batches import BatchOrder
from regard.training.distributed import Ranks
from regard.training.interrupts import Interrupted
from regard.training.loop import Loop
from regard.training.run_config import RunConfig, prepare
from regard.training.supervised import Supervised, mean_loss

ALONE = Ranks(0, 1, torch.device("cpu"))
TIMES = ("seconds", "tokens_per_second")


def loop(config: RunConfig, folder: Path, report: Callable[[dict[str, Any]], None] = lambda row: None) -> Loop:
    folder.mkdir(exist_ok=True)
    prepared = prepare(config)
    algorithm = Supervised(prepared.model, prepared.training, config.settings, ALONE)

    def evaluate(model: Any) -> dict[str, Any]:
        return {"loss": mean_loss(model, prepared.validation, config.settings, ALONE)}

    return Loop(algorithm, evaluate, config.settings, folder, ALONE, report)


def interrupting(step: int) -> Callable[[dict[str, Any]], None]:
    """Return a report function that presses Ctrl-C once, after this step."""
    left = [step]

    def report(row: dict[str, Any]) -> None:
        if left and row["step"] >= left[0]:
            left.clear()
            os.kill(os.getpid(), signal.SIGINT)

    return report


def measured(folder: Path) -> list[dict[str, Any]]:
    rows = read_metrics(folder / "metrics.jsonl")
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


class TestResume:
    @pytest.mark.parametrize("model", ["transformer", "lstm-attention"])
    def test_a_resumed_run_equals_an_uninterrupted_one(self, model: str, tiny: Any, tmp_path: Path) -> None:
        config = tiny(model, steps=30, sizes={"dropout": 0.2})
        whole = loop(config, tmp_path / "whole").run()
        with pytest.raises(Interrupted):
            loop(config, tmp_path / "parts", interrupting(10)).run()
        stopped = latest_checkpoint(tmp_path / "parts" / "checkpoints")
        assert stopped is not None
        assert int(stopped.name) == 10
        with pytest.raises(Interrupted):
            loop(config, tmp_path / "parts", interrupting(20)).run()
        parts = loop(config, tmp_path / "parts").run()

        for name in ("checkpoints/00000030/state.safetensors", "model.safetensors", "model.json"):
            assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes(), name
        assert measured(tmp_path / "whole") == measured(tmp_path / "parts")
        assert (whole.best_metric, whole.best_step, whole.count) == (parts.best_metric, parts.best_step, parts.count)

    def test_steps_after_the_last_checkpoint_are_repeated(self, tiny: Any, tmp_path: Path) -> None:
        config = tiny(steps=20, checkpoint_every=8)

        class Killed(BaseException):
            pass

        def report(row: dict[str, Any]) -> None:
            if row["step"] >= 12:
                raise Killed

        loop(config, tmp_path / "whole").run()
        with pytest.raises(Killed):
            loop(config, tmp_path / "parts", report).run()
        assert {row["step"] for row in measured(tmp_path / "parts")} == {4, 8, 10, 12}
        loop(config, tmp_path / "parts").run()
        assert measured(tmp_path / "parts") == measured(tmp_path / "whole")
        weights = "checkpoints/00000020/state.safetensors"
        assert (tmp_path / "whole" / weights).read_bytes() == (tmp_path / "parts" / weights).read_bytes()

    def test_a_checkpoint_of_an_earlier_version_is_resumed(self, tiny: Any, tmp_path: Path) -> None:
        config = tiny(steps=12, checkpoint_every=1000)
        whole = loop(config, tmp_path / "whole").run()
        with pytest.raises(Interrupted):
            loop(config, tmp_path / "parts", interrupting(4)).run()
        file = tmp_path / "parts" / "checkpoints" / "00000004" / "state.json"
        state = json.loads(file.read_text())
        old = {name: state[name] for name in ("step", "seconds", "processor_seconds", "best_step")}
        old |= {"tokens": state["count"], "best": state["best_metric"], "since_best": 0, "lost": 0.0, "lost_over": 0}
        file.write_text(json.dumps(old))
        parts = loop(config, tmp_path / "parts").run()
        assert (whole.best_metric, whole.best_step, whole.count) == (parts.best_metric, parts.best_step, parts.count)
        weights = "checkpoints/00000012/state.safetensors"
        assert (tmp_path / "whole" / weights).read_bytes() == (tmp_path / "parts" / weights).read_bytes()

    def test_another_seed_gives_another_run(self, tiny: Any, tmp_path: Path) -> None:
        for seed in (0, 1):
            loop(tiny(seed=seed), tmp_path / str(seed)).run()
        assert measured(tmp_path / "0") != measured(tmp_path / "1")

    def test_a_checkpoint_contains_tensors_and_json_only(self, tiny: Any, tmp_path: Path) -> None:
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

    def test_a_damaged_checkpoint_is_reported(self, tiny: Any, tmp_path: Path) -> None:
        loop(tiny(), tmp_path / "run").run()
        file = tmp_path / "run" / "checkpoints" / "00000012" / "state.safetensors"
        file.write_bytes(file.read_bytes()[:-9])
        with pytest.raises(ValueError, match="00000012 is not a checkpoint, or is damaged"):
            loop(tiny(), tmp_path / "run").run()

    def test_random_state_and_signal_handlers_of_the_caller_are_restored(self, tiny: Any, tmp_path: Path) -> None:
        made = loop(tiny(), tmp_path / "run")
        state, handler = torch.random.get_rng_state(), signal.getsignal(signal.SIGINT)
        made.run()
        assert torch.equal(torch.random.get_rng_state(), state)
        assert signal.getsignal(signal.SIGINT) is handler

    def test_outside_the_main_thread(self, tiny: Any, tmp_path: Path) -> None:
        states: list[Any] = []
        made = loop(tiny(), tmp_path / "run")
        thread = threading.Thread(target=lambda: states.append(made.run()))
        thread.start()
        thread.join()
        assert states[0].step == 12


class TestLearning:
    def test_the_loss_falls_and_the_best_model_is_saved(self, tiny: Any, tmp_path: Path) -> None:
        config = tiny(steps=60, sizes={"dropout": 0.0}, evaluate_every=20, checkpoint_every=1000)
        state = loop(config, tmp_path / "run").run()
        rows = measured(tmp_path / "run")
        held = [row for row in rows if row["split"] == "valid"]
        learnt = [row["loss"] for row in rows if row["split"] == "train"]
        assert learnt[-1] < 0.6 * learnt[0]
        assert state.best_metric == min(row["loss"] for row in held)
        assert state.best_step == min(held, key=lambda row: row["loss"])["step"]
        best, validation = models.load(tmp_path / "run"), prepare(config).validation
        assert mean_loss(best, validation, config.settings, ALONE) == pytest.approx(state.best_metric, abs=1e-6)

    def test_accumulation_gives_the_same_losses(self, tiny: Any, tmp_path: Path) -> None:
        for rounds in (1, 4):
            loop(tiny(accumulate=rounds, sizes={"dropout": 0.0}), tmp_path / str(rounds)).run()
        one, four = (measured(tmp_path / str(rounds)) for rounds in (1, 4))
        for a, b in zip(one, four, strict=True):
            assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
            assert a.get("gradient_norm") == pytest.approx(b.get("gradient_norm"), abs=1e-4)

    def test_patience_stops_the_run(self, tiny: Any, tmp_path: Path) -> None:
        config = tiny(steps=400, learning_rate=0.3, warmup=0, clip=1e6, evaluate_every=2, patience=3)
        state = loop(config, tmp_path / "run").run()
        assert state.evaluations_since_best == 3
        assert state.step == state.best_step + 6 < 400

    def test_minutes_of_cpu_time_do_not_count_waiting(self, tiny: Any, tmp_path: Path) -> None:
        run = loop(tiny(steps=None, minutes=0.02, clock="cpu"), tmp_path / "run")
        update = run.algorithm.update

        def wait_and_update(*arguments: Any) -> Any:
            time.sleep(0.2)
            return update(*arguments)

        run.algorithm.update = wait_and_update  # type: ignore[method-assign]
        state = run.run()
        assert state.processor_seconds >= 1.2
        assert state.seconds > state.processor_seconds + 0.1 * state.step

    def test_minutes_limit_the_run(self, tiny: Any, tmp_path: Path) -> None:
        state = loop(tiny(steps=None, minutes=0.02), tmp_path / "run").run()
        assert state.step > 1
        assert state.seconds >= 1.2
        assert measured(tmp_path / "run")[-1]["split"] == "valid"
        assert (tmp_path / "run" / "model.safetensors").exists()

    def test_mixed_precision_changes_the_loss_slightly(self, tiny: Any, tmp_path: Path) -> None:
        losses = []
        for precision in ("float32", "bfloat16"):
            loop(tiny(precision=precision, sizes={"dropout": 0.0}), tmp_path / precision).run()
            losses.append(measured(tmp_path / precision)[-1]["loss"])
        assert losses[0] == pytest.approx(losses[1], rel=0.02)
        assert losses[0] != losses[1]

    def test_a_model_stored_as_float16(self, tiny: Any, tmp_path: Path) -> None:
        for store in ("float32", "float16"):
            loop(tiny(store=store), tmp_path / store).run()
        single, half = (load_file(tmp_path / store / "model.safetensors") for store in ("float32", "float16"))
        assert {value.dtype for value in half.values()} == {torch.float16}
        for name, value in single.items():
            torch.testing.assert_close(half[name].float(), value, atol=1e-3, rtol=1e-3)

    def test_a_loss_that_is_not_finite_stops_the_run(self, tiny: Any, tmp_path: Path) -> None:
        config = tiny(steps=200, learning_rate=1e30, warmup=0, clip=1e30)
        with pytest.raises(ValueError, match="try a lower learning rate than 1e\\+30; no checkpoint was written yet"):
            loop(config, tmp_path / "run").run()

    def test_tensorboard(self, tiny: Any, tmp_path: Path) -> None:
        pytest.importorskip("tensorboard")
        from dataclasses import replace

        replace(loop(tiny(), tmp_path / "run"), tensorboard=True).run()
        files = list((tmp_path / "run" / "tensorboard").iterdir())
        assert files
        assert b"loss/valid" in files[0].read_bytes()


class TestOrder:
    def test_an_epoch_contains_every_example_once(self) -> None:
        order = BatchOrder([n % 17 for n in range(640)], batch=16, seed=3)
        epochs = [[order(step) for step in range(40 * e, 40 * (e + 1))] for e in (0, 1)]
        for epoch in epochs:
            assert sorted(i for batch in epoch for i in batch) == list(range(640))
        assert epochs[0] != epochs[1]

    def test_a_batch_has_examples_of_similar_length(self) -> None:
        lengths = [n % 17 for n in range(640)]
        order = BatchOrder(lengths, batch=16, seed=3)
        spread = [max(lengths[i] for i in order(step)) - min(lengths[i] for i in order(step)) for step in range(40)]
        assert max(spread) <= 1

    def test_the_batch_of_a_step_does_not_depend_on_earlier_calls(self) -> None:
        orders = [BatchOrder(list(range(100)), batch=8, seed=0) for _ in range(3)]
        assert [orders[0](40), orders[0](3)] == [orders[1](40), orders[2](3)]

    def test_less_data_than_a_batch(self) -> None:
        counts = np.bincount(BatchOrder([1, 2, 3], batch=8, seed=0)(5))
        assert sorted(counts.tolist()) == [2, 3, 3]

    def test_parts_add_up_to_the_batch(self) -> None:
        batch = list(range(12))
        assert sorted(i for n in range(4) for i in batch[slice(n, None, 4)]) == batch

    def test_no_data(self) -> None:
        with pytest.raises(ValueError, match="nothing to learn from"):
            BatchOrder([], batch=8, seed=0)


class TestSettings:
    def test_the_learning_rate_rises_and_falls(self) -> None:
        settings = Settings(steps=1000, warmup=50, learning_rate=2.0, floor=0.1)
        rates = [settings.learning_rate_at(step) for step in range(1000)]
        assert rates.index(max(rates)) in range(40, 60)
        assert max(rates) == pytest.approx(2.0, rel=0.02)
        assert rates[-1] == pytest.approx(0.2, rel=0.01)
        assert all(a >= b for a, b in pairwise(rates[60:]))

    def test_the_learning_rate_follows_the_time_if_minutes_are_given(self) -> None:
        settings = Settings(steps=None, minutes=2.0, warmup=0, floor=0.0)
        assert settings.learning_rate_at(10**6, 0.0) == 1e-3
        assert settings.learning_rate_at(1, 60.0) == pytest.approx(0.5e-3)
        assert settings.progress(5, 120.0) == 1

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"steps": 0}, "steps must be at least 1, got 0"),
            ({"minutes": -1.0}, "minutes must be greater than 0"),
            ({"steps": None}, "give steps or minutes"),
            ({"batch": 10, "accumulate": 3}, "accumulate must divide batch, got 3 rounds for 10"),
            ({"precision": "int8"}, "precision must be float32 or bfloat16, got 'int8'"),
            ({"learning_rate": 0.0}, "learning_rate must be greater than 0"),
        ],
    )
    def test_wrong_settings(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Settings(**wrong)


def test_metrics_are_one_json_object_per_line(tiny: Any, tmp_path: Path) -> None:
    loop(tiny(), tmp_path / "run").run()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["step"] for row in rows if row["split"] == "valid"] == [4, 8, 12]
    learnt = [row for row in rows if row["split"] == "train"]
    assert {"loss", "learning_rate", "gradient_norm", "seconds", "tokens_per_second"} <= set(learnt[0])
