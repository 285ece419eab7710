"""Starting a run, going on with one, and finishing it: the best model is kept, tested and described in run.json."""

import json
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import regard
from regard.durations import format_duration
from regard.files import write_atomic
from regard.training.data.pairs import Pair
from regard.training.distributed import Ranks, joined
from regard.training.loop import Loop
from regard.training.metrics import Metrics
from regard.training.run import RUNS, Run, find, load, read_about
from regard.training.run_config import Prepared, RunConfig, prepare
from regard.training.tokenizer import Tokenizer

Shown = Callable[[Metrics], None]


@dataclass(frozen=True)
class TrainingResult:
    """A run that is done: what was measured at its end, and texts that show it, with what is expected if known.

    `first` is False in the processes that only helped.
    """

    run: Run
    results: dict[str, Any]
    show: tuple[tuple[str, str | None], ...]
    first: bool = True

    def report(self) -> list[str]:
        """The results in words."""
        found = self.results
        steps = f"{found['steps']:,} steps, {found['tokens']:,} tokens in {format_duration(found['seconds'])}"
        lines = [
            f"{self.run.folder}: {found['parameters']:,} parameters",
            f"{steps} ({format_duration(found['processor_seconds'])} of processor time)",
            f"valid loss {found['valid_loss']:.4f} at step {found['best_step']:,}",
        ]
        if "exact_match" in found:
            lines.append(
                f"held out: {100 * found['exact_match']:.2f} % of {found['tested']:,} translated to the letter"
            )
        return lines


def free_folder(plan: RunConfig) -> Path:
    """runs/<task>-<data> below the current folder, or the next number of it that is free."""
    names = [Path(name).stem for name in plan.data]
    base = "-".join([plan.task, *names[:2], *([plan.model] if plan.model != "transformer" else [])])
    number, folder = 1, RUNS / base
    while folder.exists():
        number += 1
        folder = RUNS / f"{base}-{number}"
    return folder


def train(
    plan: RunConfig,
    folder: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    tensorboard: bool = False,
    shown: Shown = lambda row: None,
) -> TrainingResult:
    """Train by the plan, into a folder that is not there yet."""
    with joined(device) as ranks:
        path = free_folder(plan) if folder is None else Path(folder)
        ranks.wait()  # all have looked for a free name before the first takes it
        if (path / "run.json").exists() or (path.is_dir() and any(path.iterdir())):
            raise ValueError(f"{path} exists already; go on with --resume {path}, or write elsewhere with --out")
        ranks.wait()
        prepared = prepare(plan)
        if ranks.first:
            path.mkdir(parents=True, exist_ok=True)
            prepared.tokenizer.save(path / "tokenizer.json")
            write_about(path, prepared.plan)
        ranks.wait()
        return _go(prepared, path, ranks, tensorboard, shown)


def resume(
    folder: str | os.PathLike[str],
    *,
    device: str | None = None,
    tensorboard: bool = False,
    shown: Shown = lambda row: None,
) -> TrainingResult:
    """Go on with a run where its last checkpoint left it."""
    path = find(folder)
    plan, about = read_run_config(path), read_about(path)
    if about.get("results"):
        raise ValueError(f"{path} is finished; to train longer, start a new run with more --steps")
    with joined(device) as ranks:
        return _go(prepare(plan, Tokenizer.load(path / "tokenizer.json")), path, ranks, tensorboard, shown)


def read_run_config(path: Path) -> RunConfig:
    """The plan of a run."""
    return RunConfig.from_json(read_about(path)["plan"])


def _go(prepared: Prepared, path: Path, ranks: Ranks, tensorboard: bool, shown: Shown) -> TrainingResult:
    loop = Loop(
        prepared.objective, prepared.model, prepared.learn, prepared.watch, prepared.plan.settings, path, ranks,
        shown, tensorboard,
    )  # fmt: skip
    state = loop.run()
    run = load(path)
    results: dict[str, Any] = {
        "steps": state.step,
        "tokens": state.tokens,
        "seconds": round(state.seconds, 1),
        "processor_seconds": round(state.processor_seconds, 1),
        "valid_loss": state.best,
        "best_step": state.best_step,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
    }
    if ranks.first:
        if prepared.test:
            results |= exact_match(run, prepared.test)
        write_about(path, prepared.plan, results)
        shutil.rmtree(path / "checkpoints", ignore_errors=True)
    ranks.wait()
    answers = dict(prepared.test)
    return TrainingResult(run, results, tuple((source, answers.get(source)) for source in prepared.show), ranks.first)


def exact_match(run: Run, pairs: tuple[Pair, ...]) -> dict[str, Any]:
    """How many of the held-out pairs are translated to the letter."""
    found = run.translate([source for source, _ in pairs])
    right = sum(said == target for said, (_, target) in zip(found, pairs, strict=True))
    return {"exact_match": right / len(pairs), "tested": len(pairs)}


def write_about(path: Path, plan: RunConfig, results: dict[str, Any] | None = None) -> None:
    """run.json: what the run is, and when it is finished, what it reached."""
    versions = {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}
    content = {"format": 1, "plan": plan.to_json(), "results": results, "versions": versions}
    write_atomic(path / "run.json", (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
