"""Starting a run, going on with one, and finishing it: the best model is kept, tested and described in run.json."""

import json
import os
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import regard
from regard import models
from regard.training.examples import Examples
from regard.training.files import write_whole
from regard.training.loop import Loop, evaluate
from regard.training.metrics import Row
from regard.training.pairs import Pair
from regard.training.plan import Plan, Prepared, prepare
from regard.training.ranks import Ranks, joined
from regard.training.run import RUNS, Run, find, load, read_about

Shown = Callable[[Row], None]


@dataclass(frozen=True)
class Finished:
    """A run that is done, with what was measured at its end and the sources that show it."""

    run: Run
    results: dict[str, Any]
    show: tuple[str, ...]


def free_folder(plan: Plan) -> Path:
    """runs/<task>-<data> below the current folder, or the next number of it that is free."""
    names = [Path(name).stem for name in plan.data]
    base = "-".join([plan.task, *names[:2], *([plan.model] if plan.model != "transformer" else [])])
    number, folder = 1, RUNS / base
    while folder.exists():
        number += 1
        folder = RUNS / f"{base}-{number}"
    return folder


def train(
    plan: Plan,
    folder: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    tensorboard: bool = False,
    shown: Shown = lambda row: None,
) -> Finished:
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
) -> Finished:
    """Go on with a run where its last checkpoint left it."""
    path = find(folder)
    about = read_about(path)
    if about.get("results"):
        raise ValueError(f"{path} is finished; to train longer, start a new run with more --steps")
    with joined(device) as ranks:
        return _go(prepare(Plan.from_json(about["plan"])), path, ranks, tensorboard, shown)


def _go(prepared: Prepared, path: Path, ranks: Ranks, tensorboard: bool, shown: Shown) -> Finished:
    began = time.process_time()
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
        "processor_seconds": round(time.process_time() - began, 1),
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
    return Finished(run, results, prepared.show)


def exact_match(run: Run, pairs: tuple[Pair, ...]) -> dict[str, Any]:
    """How many of the held-out pairs are translated to the letter."""
    found = run.translate([source for source, _ in pairs])
    right = sum(said == target for said, (_, target) in zip(found, pairs, strict=True))
    return {"exact_match": right / len(pairs), "tested": len(pairs)}


def write_about(path: Path, plan: Plan, results: dict[str, Any] | None = None) -> None:
    """run.json: what the run is, and when it is finished, what it reached."""
    versions = {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}
    content = {"format": 1, "plan": plan.to_json(), "results": results, "versions": versions}
    write_whole(path / "run.json", (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


__all__ = ["Examples", "Finished", "evaluate", "exact_match", "free_folder", "models", "resume", "train"]
