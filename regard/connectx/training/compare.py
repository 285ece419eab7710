"""Comparison of two network configurations under equal conditions.

A configuration is a preset with changes, `small,heads=4,sees=all+lines`, optionally followed by a slash and changes to
the training settings, `small/learning_rate=1e-3`. Both configurations are trained by the same method with several
seeds, alternately. The budget of each network is CPU time of the training process, such as 20m or 90s, so that other
work on the machine takes nothing from it, or a number of positions, such as 500k. Only a budget
of positions repeats a comparison exactly.

Every network is evaluated on held-out solved positions, and the two networks of each seed play each other from random
openings, both sides of each, with the most probable move of the policy. The score comes with a confidence interval over
seeds and games.
"""

import json
import math
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard import models
from regard.connectx.arena.match import play_game
from regard.connectx.game.openings import openings
from regard.connectx.players.network_player import NetworkPlayer, load_network
from regard.connectx.training import run as board_run
from regard.files import explain_damage, write_atomic
from regard.parallel import Engine, Handle, Work, engine_or_local
from regard.training.metrics import Metrics
from regard.training.settings import Settings

GAMES_PER_SEED = 40


@dataclass(frozen=True)
class Budget:
    """Training budget of each network: seconds of CPU time, or positions."""

    seconds: float | None = None
    positions: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """Return the budget that a text such as "20m" or "500k" describes.

        >>> Budget.parse("20m"), Budget.parse("500k")
        (Budget(seconds=1200.0, positions=None), Budget(seconds=None, positions=500000))
        """
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|k|M)?", text.strip())
        if match is None or float(match[1]) == 0:
            raise ValueError(f"the budget must be a time, such as 90s, 20m or 1h, or positions (500k), got {text!r}")
        number, unit = float(match[1]), match[2] or ""
        if unit in ("s", "m", "h"):
            return cls(seconds=number * {"s": 1, "m": 60, "h": 3600}[unit])
        return cls(positions=int(number * {"": 1, "k": 1_000, "M": 1_000_000}[unit]))


def parse_configuration(text: str, method: str = "distill") -> tuple[models.BoardConfig, dict[str, Any]]:
    """Return the network configuration and the changed settings that a text describes.

    >>> config, settings = parse_configuration("tiny,heads=2,sees=all+near3/learning_rate=1e-3")
    >>> config.heads, config.sees, settings
    (2, ('all', 'near3'), {'learning_rate': 0.001})
    """
    network, _, settings = text.partition("/")
    preset, *parts = network.split(",")
    sizes = dict(_parse_change(part, text) for part in parts)
    if isinstance(sizes.get("sees"), str):
        sizes["sees"] = tuple(sizes["sees"].split("+"))
    changes = dict(_parse_change(part, text) for part in settings.split(",") if part)
    return board_run.network_config(method, preset.strip(), **sizes), changes


def _parse_change(part: str, text: str) -> tuple[str, Any]:
    name, sign, value = (piece.strip() for piece in part.partition("="))
    if not sign or not name:
        raise ValueError(f"a configuration is a preset followed by name=value, such as small,heads=4; got {text!r}")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, None if value == "none" and name in ("lines", "attn_every") else value


@dataclass(frozen=True)
class Comparison:
    """Results of a comparison, as stored in comparison.json."""

    results: dict[str, Any]

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        score, low, high = (100 * self.results["games"][name] for name in ("score", "low", "high"))
        a, b = self.results["configurations"]
        conclusion = "no significant difference" if low <= 50 <= high else f"{a if score > 50 else b} is stronger"
        return f"{a} scores {score:.1f} % against {b} ({low:.1f} to {high:.1f}): {conclusion}"

    def table(self) -> Any:
        """Return a rich table of the mean evaluation of both configurations."""
        from rich import box
        from rich.table import Table

        title = f"{self.results['method']}, {self.results['seeds']} seeds"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for column in ("configuration", "parameters", "positions", "error %", "begin", "middle", "end", "perfect %"):
            left = column == "configuration"
            table.add_column(column, justify="left" if left else "right", overflow="fold", no_wrap=not left)
        for name in self.results["configurations"]:
            rows = self.results["grades"][name]

            def mean(key: str, rows: list[Metrics] = rows) -> float:
                return sum(row.get(key, math.nan) for row in rows) / len(rows)

            errors = [f"{100 * mean(key):.2f}" for key in ("error", "error_begin", "error_middle", "error_end")]
            counts = [f"{mean(key):,.0f}" for key in ("parameters", "positions")]
            table.add_row(name, *counts, *errors, f"{100 * mean('perfect'):.1f}")
        return table


def compare(
    a: str, b: str, budget: Budget, folder: Path, *, method: str = "distill", labels: str | None = None, seeds: int = 3,
    games: int = GAMES_PER_SEED, engine: Engine | None = None,
    announce: Callable[[str], None] = lambda text: None,
    report: Callable[[Metrics], None] = lambda row: None,
) -> Comparison:  # fmt: skip
    """Train both configurations with every seed, evaluate the networks and let them play each other.

    Runs that already exist in the folder are resumed or reused. With an engine of several workers, several networks are
    trained at the same time; else they are trained one after another in this process. `announce` is called with the
    name of each stage, `report` with every row of metrics.
    """
    if seeds < 1 or games < 2:
        raise ValueError(f"a comparison needs at least 1 seed and 2 games, got {seeds} and {games}")
    configurations = {name: parse_configuration(name, method) for name in (a, b)}
    if len(configurations) < 2:
        raise ValueError(f"a comparison needs two different configurations, got {a!r} twice")
    if method == "distill" and labels is None:
        raise ValueError("distillation needs labels: make some with regard connectx label and give --labels FOLDER")
    runs = [
        PlannedRun(f"{letter}-{seed}", name, config, _settings(method, budget, {**changes, "seed": seed}), method)
        for seed in range(seeds)
        for letter, (name, (config, changes)) in zip("ab", configurations.items(), strict=True)
    ]
    folder.mkdir(parents=True, exist_ok=True)  # after all checks
    with engine_or_local(engine) as engine:
        if engine.same_files and engine.workers == 1:
            for planned in runs:
                announce(str(planned))
                _train(planned, folder, labels, report)
        else:
            _train_on_workers(
                [planned for planned in runs if not _is_finished(planned, folder)], folder, labels, engine, announce
            )
    evaluations: dict[str, list[Metrics]] = {a: [], b: []}
    for seed in range(seeds):
        for letter, name in zip("ab", configurations, strict=True):
            run = folder / f"{letter}-{seed}"
            with explain_damage(run / "run.json", "a finished run", "remove the folder to train it again"):
                results = board_run.read_board_run(run)["results"]
                costs = {key: results[key] for key in ("seconds", "steps", "positions", "parameters")}
                evaluations[name].append({**results["alone"], **costs})
    announce("the networks play each other")
    comparison = {
        "configurations": [a, b], "method": method, "budget": asdict(budget), "seeds": seeds, "grades": evaluations,
        "games": _play_games(folder, seeds, games),
    }  # fmt: skip
    write_atomic(folder / "comparison.json", json.dumps(comparison, indent=1) + "\n")
    return Comparison(comparison)


@dataclass(frozen=True)
class PlannedRun:
    """A network to train: the folder of its run inside that of the comparison, and how it is trained."""

    folder: str
    name: str
    config: models.BoardConfig
    settings: Settings
    method: str

    def __str__(self) -> str:
        return f"{self.name}, seed {self.settings.seed}"


def _is_finished(planned: PlannedRun, folder: Path) -> bool:
    run = folder / planned.folder
    return (run / "run.json").exists() and bool(board_run.read_board_run(run).get("results"))


def _train(
    planned: PlannedRun, folder: Path, labels: str | None, report: Callable[[Metrics], None] = lambda row: None
) -> None:
    """Start or resume a run; a finished run stays."""
    run = folder / planned.folder
    if not (run / "run.json").exists():
        plan = board_run.BoardRunConfig(planned.method, labels=labels)
        board_run.start_run(plan, planned.config, planned.settings, run, report=report)
    elif not _is_finished(planned, folder):
        board_run.resume_run(run, report=report)


def _train_on_workers(
    runs: list[PlannedRun], folder: Path, labels: str | None, engine: Engine, announce: Callable[[str], None]
) -> None:
    """Train several networks at the same time, each by one worker."""
    place = folder.resolve() if engine.same_files else None
    source = None if labels is None else str(Path(labels).resolve()) if place else read_files(Path(labels))
    work: Work[PlannedRun, Files] = Work(_prepare, (place, engine.share(source)), threads=torch.get_num_threads())
    announce(f"training {len(runs)} networks on {engine.workers} workers")
    with engine.start(work) as pool:
        for planned, files in pool.results(runs):
            for name, content in files.items():
                file = folder / planned.folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(file, content)
            announce(f"{planned}: trained")


Files = dict[str, bytes]


def read_files(folder: Path) -> Files:
    """Return the content of the files in a folder, except hidden ones, by their names; run.json comes last."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    return {file.name: file.read_bytes() for file in sorted(files, key=lambda file: file.name == "run.json")}


def _prepare(place: Path | None, labels: Handle) -> Callable[[PlannedRun], Files]:
    """Return the function that trains a network: in the folder of the comparison, or far from it in one of its own."""

    def train(planned: PlannedRun) -> Files:
        if place is not None:
            _train(planned, place, labels.value())
            return {}
        with tempfile.TemporaryDirectory(prefix="regard-") as name:
            folder = Path(name)
            source: Files | None = labels.value()
            if source is not None:
                (folder / "labels").mkdir()
                for file, content in source.items():
                    (folder / "labels" / file).write_bytes(content)
            _train(planned, folder, None if source is None else str(folder / "labels"))
            return read_files(folder / planned.folder)

    return train


def _settings(method: str, budget: Budget, changes: dict[str, Any]) -> Settings:
    if budget.seconds is not None:
        return board_run.default_settings(method, minutes=budget.seconds / 60, clock="cpu", **changes)
    if method != "distill":
        raise ValueError(f"a budget in positions is possible with distill only; {method} needs a time, such as 20m")
    assert budget.positions is not None
    batch = changes.get("batch", board_run.default_settings(method).batch)
    return board_run.default_settings(method, steps=max(1, budget.positions // batch), **changes)


def _play_games(folder: Path, seeds: int, games: int) -> dict[str, Any]:
    """Return wins, draws and losses of configuration a, in total and by seed, and its score with a 95 % interval."""
    by_seed = []
    for seed in range(seeds):
        a, b = (
            NetworkPlayer(models.Evaluator(load_network(folder / f"{letter}-{seed}"), mirror=True), name=letter)
            for letter in "ab"
        )
        points = [
            game.points("a")
            for board in openings("random", games // 2, plies=4, seed=seed)
            for game in (play_game(a, b, board), play_game(b, a, board))
        ]
        by_seed.append([points.count(result) for result in (1, 0.5, 0)])
    won, drawn, lost = (sum(counts) for counts in zip(*by_seed, strict=True))
    count = won + drawn + lost
    score = (won + drawn / 2) / count
    error = math.sqrt(max((won + drawn / 4) / count - score**2, 0) / count)
    if seeds > 1:  # networks of different seeds differ in strength, so that games of one seed are not independent
        scores = [(w + d / 2) / (w + d + x) for w, d, x in by_seed]
        between = sum((seed_score - score) ** 2 for seed_score in scores) / (seeds - 1)
        error = max(error, math.sqrt(between / seeds))
    return {
        "won": won, "drawn": drawn, "lost": lost, "by_seed": by_seed, "score": score,
        "low": max(0.0, score - 1.96 * error), "high": min(1.0, score + 1.96 * error),
    }  # fmt: skip
