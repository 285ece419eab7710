"""Running a claim: part by part, each written down when it is done, so that a run that was stopped goes on."""

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.random  # NumPy would load it at its first use, and a Ctrl-C within that is swallowed
import torch

from regard.claims.claim import Claim, Settings, Size
from regard.claims.machine import machine
from regard.claims.result import FOLDER, Part, Result, read

Done = Callable[[Part | None], None]


def run(
    claim: Claim,
    size: Size = "default",
    *,
    seeds: int | None = None,
    folder: str | os.PathLike[str] = FOLDER,
    again: bool = False,
    on_part: Done = lambda part: None,
) -> Result:
    """Do what is not done yet, and return the whole result.

    seeds       how often everything is repeated; the claim's own number unless given
    folder      where NAME.json is written, and read from if it was begun with the same settings
    again       begin anew
    on_part     called with every part that is done, and with None for one that was found done
    """
    settings = {name: value for name, value in claim.sizes[size].items() if name != "seeds"}
    seeds = claim.sizes[size]["seeds"] if seeds is None else seeds
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    todo = [(seed, part) for seed in range(seeds) for part in claim.parts(settings)]
    file = Path(folder) / f"{claim.name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    result = _begun(claim, size, settings, seeds, file, again)
    result = replace(result, seeds=seeds, expected_parts=len(todo), command=_command(claim, size, seeds))
    # Of parts found done, those of seeds that are not asked for now are left out.
    result = replace(result, parts=tuple(part for part in result.parts if part.seed < seeds))
    result.save(file)
    for seed, part in todo:
        if result.has(seed, part):
            on_part(None)
            continue
        done = _done(claim, settings, part, seed)
        result = replace(result, parts=(*result.parts, done))
        result.save(file)
        on_part(done)
    return read(file)


def count(claim: Claim, size: Size, seeds: int | None = None) -> int:
    """How many parts a run has."""
    settings = claim.sizes[size]
    return len(claim.parts(settings)) * (settings["seeds"] if seeds is None else seeds)


def _begun(claim: Claim, size: Size, settings: Settings, seeds: int, file: Path, again: bool) -> Result:
    fresh = Result(claim.name, size, settings, seeds, 0, machine(), "")
    if again or not file.exists():
        return fresh
    found = read(file)
    # Compared as JSON has them, where a tuple is a list.
    if (found.claim, found.size, _as_lists(found.settings)) != (claim.name, size, _as_lists(settings)):
        raise ValueError(
            f"{file} has a result of other settings (size {found.size}, {len(found.parts)} parts); "
            "--again replaces it, --out DIR writes elsewhere"
        )
    if found.machine != fresh.machine and not found.complete:
        raise ValueError(
            f"{file} was begun on another machine or with other threads, and parts of two do not mix; "
            "--again begins anew, --out DIR writes elsewhere"
        )
    return found


def _as_lists(settings: Settings) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def _done(claim: Claim, settings: Settings, part: Settings, seed: int) -> Part:
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        rows = claim.measure(settings, part, seed)
    plain = tuple({name: _plain(value) for name, value in row.items()} for row in rows)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Part(seed, dict(part), time.perf_counter() - start, plain, load)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic | torch.Tensor) else value


def _command(claim: Claim, size: Size, seeds: int) -> str:
    own = claim.sizes[size]["seeds"]
    options = {"tiny": " --tiny", "default": "", "full": " --full"}[size]
    return f"regard claims run {claim.name}{options}" + (f" --seeds {seeds}" if seeds != own else "")
