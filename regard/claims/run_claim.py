"""Running a claim part by part. Each finished part is stored, so that an interrupted run can be resumed."""

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.random  # imported now: NumPy would import it at its first use, where a Ctrl-C is lost
import torch

from regard.claims.claim import Claim, Settings, Size
from regard.claims.machine import describe_machine
from regard.claims.registry import NAMES, claim_named
from regard.claims.result import FOLDER, Part, Result, read
from regard.parallel import Engine, Work, engine_or_local


def run(
    claim: Claim,
    size: Size = "default",
    *,
    seeds: int | None = None,
    folder: str | os.PathLike[str] = FOLDER,
    again: bool = False,
    engine: Engine | None = None,
    on_part: Callable[[Part | None], None] = lambda part: None,
) -> Result:
    """Measure the parts that are not stored yet and return the complete result.

    claim       the claim
    size        "tiny", "default" or "full"
    seeds       number of repetitions; by default that of the claim
    folder      where NAME.json is written; a result there with the same settings is resumed
    again       discard a stored result and start anew
    engine      where the parts are measured, several at the same time; default: one after another in this process, as
                always if times are measured. The rows are the same
    on_part     called with each finished part, and with None for each part that was already stored

    >>> from tempfile import TemporaryDirectory
    >>> from regard.claims import claim_named
    >>> with TemporaryDirectory() as folder:
    ...     run(claim_named("errata"), "tiny", folder=folder).complete
    True
    """
    settings = {name: value for name, value in claim.sizes[size].items() if name != "seeds"}
    seeds = claim.sizes[size]["seeds"] if seeds is None else seeds
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    todo = [(seed, part) for seed in range(seeds) for part in claim.parts(settings)]
    file = Path(folder) / f"{claim.name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = Result(claim.name, size, settings, seeds, len(todo), describe_machine(), _command(claim, size, seeds))
    result = fresh
    if file.exists() and not again:
        stored = _check_stored(read(file), fresh, file)
        parts = tuple(part for part in stored.parts if part.seed < seeds)
        result = replace(fresh, machine=stored.machine, parts=parts)
    result.save(file)
    missing = [number for number, (seed, part) in enumerate(todo) if not result.has(seed, part)]
    for _ in range(len(todo) - len(missing)):
        on_part(None)
    order = {_key(*entry): number for number, entry in enumerate(todo)}
    subject: Claim | str = claim.name if claim.name in NAMES and claim is claim_named(claim.name) else claim
    work: Work[tuple[int, Settings], Part] = Work(_prepare, (subject, settings), threads=torch.get_num_threads())
    with engine_or_local(None if claim.timed else engine) as engine, engine.start(work) as pool:
        for _, finished in pool.results(todo[number] for number in missing):
            ordered = sorted((*result.parts, finished), key=lambda part: order[_key(part.seed, part.part)])
            result = replace(result, parts=tuple(ordered))
            result.save(file)
            on_part(finished)
    return read(file)


def count(claim: Claim, size: Size, seeds: int | None = None) -> int:
    """Return the number of parts that a run measures: the parts of one seed times the number of seeds.

    claim, size, seeds  as for `run`

    >>> from regard.claims import claim_named
    >>> count(claim_named("mask"), "tiny")
    4
    """
    settings = claim.sizes[size]
    return len(claim.parts(settings)) * (settings["seeds"] if seeds is None else seeds)


def _check_stored(stored: Result, fresh: Result, file: Path) -> Result:
    """Return the stored result if a run can resume it; otherwise raise ValueError."""
    if (stored.claim, stored.size, stored.settings) != (fresh.claim, fresh.size, fresh.settings):
        raise ValueError(
            f"{file} has a result with other settings (size {stored.size}, {len(stored.parts)} parts); "
            "--again replaces it, --out DIR writes elsewhere"
        )
    if stored.machine != fresh.machine and not stored.complete:
        raise ValueError(
            f"{file} was started on another machine or with another number of threads, and parts of both cannot be "
            "mixed; --again starts anew, --out DIR writes elsewhere"
        )
    return stored


def _key(seed: int, part: Settings) -> tuple[int, str]:
    return seed, json.dumps(part, sort_keys=True)


def _prepare(claim: Claim | str, settings: Settings) -> Callable[[tuple[int, Settings]], Part]:
    """Return the function that measures a part; a claim travels by its name, because it consists of functions."""
    subject = claim_named(claim) if isinstance(claim, str) else claim
    return lambda task: _measure(subject, settings, task[1], task[0])


def _measure(claim: Claim, settings: Settings, part: Settings, seed: int) -> Part:
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        rows = claim.measure(settings, part, seed)
    plain_rows = tuple(
        {name: x.item() if isinstance(x, np.generic | torch.Tensor) else x for name, x in row.items()} for row in rows
    )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Part(seed, dict(part), time.perf_counter() - start, plain_rows, load)


def _command(claim: Claim, size: Size, seeds: int) -> str:
    options = {"tiny": " --tiny", "default": "", "full": " --full"}[size]
    return f"regard claims run {claim.name}{options}" + (f" --seeds {seeds}" * (seeds != claim.sizes[size]["seeds"]))
