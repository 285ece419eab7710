"""Two configurations under equal conditions: both trained by the same method, seed by seed, then graded and played.

A configuration is a preset with changes, `small,heads=4,sees=all+lines`, and after a slash what is to be changed in
training, `small/learning_rate=1e-3`. The two take turns, seed after seed, so that a machine that grows slower grows
slower for both. Equal time is a budget such as 20m or 90s for each network; equal positions one such as 500k.

Every network is graded by the solver on positions held out, and the networks of a seed play each other: both sides of
openings, the likeliest move of the policy each time. The difference comes with an interval over seeds and games.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard import models, training
from regard.connectx.arena.match import play_game
from regard.connectx.game.openings import openings
from regard.connectx.players.network_player import NetworkPlayer, load_network
from regard.connectx.training.loop import Metrics, read_about
from regard.connectx.training.run import Plan, default_settings, resume, start
from regard.files import write_atomic

PER_SEED = 40  # games


@dataclass(frozen=True)
class Budget:
    """So many seconds, or so many positions."""

    seconds: float | None = None
    positions: int | None = None

    @classmethod
    def read(cls, text: str) -> "Budget":
        """A budget from text.

        >>> Budget.read("20m"), Budget.read("500k")
        (Budget(seconds=1200.0, positions=None), Budget(seconds=None, positions=500000))
        """
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|k|M)?", text.strip())
        if match is None or float(match[1]) == 0:
            raise ValueError(f"a budget is a time, such as 90s, 20m or 1h, or positions, such as 500k; got {text!r}")
        number, unit = float(match[1]), match[2] or ""
        if unit in ("s", "m", "h"):
            return cls(seconds=number * {"s": 1, "m": 60, "h": 3600}[unit])
        return cls(positions=int(number * {"": 1, "k": 1_000, "M": 1_000_000}[unit]))


def read_configuration(text: str) -> tuple[models.BoardConfig, dict[str, Any]]:
    """The network and the changes of settings that a text names.

    >>> config, settings = read_configuration("tiny,heads=2,sees=all+near3/learning_rate=1e-3")
    >>> config.heads, config.sees, settings
    (2, ('all', 'near3'), {'learning_rate': 0.001})
    """
    network, _, training_part = text.partition("/")
    preset, *parts = network.split(",")
    changes = {"score": "columns", "lines": 4, **dict(_read_change(part, text) for part in parts)}
    if isinstance(changes.get("sees"), str):
        changes["sees"] = tuple(str(changes["sees"]).split("+"))
    return (
        models.BoardConfig.preset(preset.strip(), **changes),
        dict(_read_change(part, text) for part in training_part.split(",") if part),
    )


def _read_change(part: str, text: str) -> tuple[str, Any]:
    name, sign, value = (piece.strip() for piece in part.partition("="))
    if not sign or not name:
        raise ValueError(f"a configuration is a preset and name=value, such as small,heads=4, got {text!r}")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, None if value == "none" and name in ("lines", "attn_every") else value


@dataclass(frozen=True)
class Comparison:
    """What came of it, for JSON, and for the table and the picture that are made of it."""

    found: dict[str, Any]

    @property
    def verdict(self) -> str:
        """The result in words."""
        score, low, high = (100 * self.found["games"][name] for name in ("score", "low", "high"))
        a, b = self.found["configurations"]
        said = "no difference is shown" if low <= 50 <= high else f"{a if score > 50 else b} is stronger"
        return f"{a} scores {score:.1f} % against {b} ({low:.1f} to {high:.1f}): {said}"


def compare(
    a: str,
    b: str,
    budget: Budget,
    folder: Path,
    *,
    method: str = "distill",
    labels: str | None = None,
    seeds: int = 3,
    games: int = PER_SEED,
    said: Callable[[str], None] = lambda text: None,
    shown: Callable[[Metrics], None] = lambda row: None,
) -> Comparison:
    """Train both under the budget with every seed, then grade and play; a stopped comparison goes on in its folder."""
    if seeds < 1 or games < 2:
        raise ValueError(f"a comparison needs at least 1 seed and 2 games, got {seeds} and {games}")
    configurations = {name: read_configuration(name) for name in (a, b)}
    if len(configurations) < 2:
        raise ValueError(f"a comparison is of two configurations, got {a!r} twice")
    graded: dict[str, list[Metrics]] = {a: [], b: []}
    for seed in range(seeds):
        for letter, (name, (config, changes)) in zip("ab", configurations.items(), strict=True):
            run = folder / f"{letter}-{seed}"
            said(f"{name}, seed {seed}")
            settings = _settings(method, budget, {**changes, "seed": seed})
            if not (run / "run.json").exists():
                chosen = replace(config, norm="group") if method == "ppo" else config
                start(Plan(method, labels=labels), chosen, settings, run, shown=shown)
            elif not read_about(run)["results"]:
                resume(run, shown=shown)
            results = read_about(run)["results"]
            graded[name].append({**results["alone"], "seconds": results["seconds"], "steps": results["steps"],
                                 "positions": results["positions"], "parameters": results["parameters"]})  # fmt: skip
    said("the networks play each other")
    found = {
        "configurations": [a, b], "method": method, "budget": asdict(budget), "seeds": seeds, "grades": graded,
        "games": _played(folder, seeds, games),
    }  # fmt: skip
    write_atomic(folder / "comparison.json", json.dumps(found, indent=1) + "\n")
    return Comparison(found)


def table(comparison: Comparison) -> Any:
    """The grades of both, for the terminal."""
    from rich.table import Table

    found = comparison.found
    shown = Table(title=f"{found['method']}, {found['seeds']} seeds")
    columns = ("configuration", "parameters", "positions", "error %", "begin", "middle", "end", "perfect %")
    for column in columns:
        shown.add_column(column, justify="left" if column == "configuration" else "right")
    for name in found["configurations"]:
        rows = found["grades"][name]

        def mean(key: str, rows: list[Metrics] = rows) -> float:
            return sum(row.get(key, math.nan) for row in rows) / len(rows)

        errors = [f"{100 * mean(key):.2f}" for key in ("error", "error_begin", "error_middle", "error_end")]
        counts = [f"{mean(key):,.0f}" for key in ("parameters", "positions")]
        shown.add_row(name, *counts, *errors, f"{100 * mean('perfect'):.1f}")
    return shown


def _settings(method: str, budget: Budget, changes: dict[str, Any]) -> training.Settings:
    if budget.seconds is not None:
        return default_settings(method, minutes=budget.seconds / 60, **changes)
    if method != "distill":
        raise ValueError("equal positions are for distillation; give a time, such as 20m")
    assert budget.positions is not None
    batch = changes.get("batch", default_settings(method).batch)
    return default_settings(method, steps=max(1, budget.positions // batch), **changes)


def _played(folder: Path, seeds: int, games: int) -> dict[str, Any]:
    """Wins, draws and losses of a against b, the score with its interval, and the difference in Elo."""
    from regard.models import Evaluator

    won = drawn = lost = 0
    by_seed = []
    for seed in range(seeds):
        a, b = (
            NetworkPlayer(Evaluator(load_network(folder / f"{letter}-{seed}"), mirror=True), name=letter)
            for letter in "ab"
        )
        here = [won, drawn, lost]
        for board in openings("random", games // 2, plies=4, seed=seed):
            for game in (play_game(a, b, board), play_game(b, a, board)):
                points = game.points("a")
                won, drawn, lost = won + (points == 1), drawn + (points == 0.5), lost + (points == 0)
        by_seed.append([won - here[0], drawn - here[1], lost - here[2]])
    count = won + drawn + lost
    score = (won + drawn / 2) / count
    # The networks of a seed are one draw of the lot: the interval counts seeds as well as games.
    means = [(w + d / 2) / (w + d + x) for w, d, x in by_seed]
    variance = (won + drawn / 4) / count - score**2
    error = math.sqrt(max(variance, 0) / count)
    if seeds > 1:
        between = sum((mean - score) ** 2 for mean in means) / (seeds - 1)
        error = max(error, math.sqrt(between / seeds))
    return {
        "won": won, "drawn": drawn, "lost": lost, "by_seed": by_seed, "score": score,
        "low": max(0.0, score - 1.96 * error), "high": min(1.0, score + 1.96 * error),
    }  # fmt: skip
