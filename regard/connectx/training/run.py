"""Starting a run of `regard connectx train`, going on with one, and what it reached at its end."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from regard import models, training
from regard.connectx.arena.move_quality import set_bitboards
from regard.connectx.data.labelling import LabelOptions, label
from regard.connectx.data.labels import Labels, read_labels, shards
from regard.connectx.training.alphazero import Zero, ZeroOptions
from regard.connectx.training.distillation import Deck, Distill
from regard.connectx.training.evaluation import grade, some_of_each
from regard.connectx.training.loop import Course, Method, Metrics, Standing, read_about, write_about
from regard.connectx.training.ppo import Ppo, PpoOptions
from regard.connectx.training.trial_games import won_against

METHODS = ("distill", "ppo", "zero")
FRESH = 1500  # positions that are labelled for grading, where a run learns from none
FRESH_SEED = 999_983  # of the games they come from: no labels that are learnt from begin so

SETTINGS: dict[str, dict[str, Any]] = {
    "distill": {
        "batch": 256, "learning_rate": 2e-3, "warmup": 200, "weight_decay": 0.02, "betas": (0.9, 0.99),
        "evaluate_every": 1000, "checkpoint_every": 500, "floor": 0.01,
    },
    "ppo": {
        "batch": 512, "learning_rate": 1e-3, "warmup": 0, "floor": 0.1, "weight_decay": 1e-4, "betas": (0.9, 0.99),
        "clip": 0.5, "evaluate_every": 10, "checkpoint_every": 10,
    },
    "zero": {
        "batch": 256, "learning_rate": 2e-3, "warmup": 0, "floor": 0.05, "weight_decay": 0.01, "betas": (0.9, 0.99),
        "evaluate_every": 200, "checkpoint_every": 100,
    },
}  # fmt: skip

Shown = Callable[[Metrics], None]


@dataclass(frozen=True)
class Plan:
    """What a run learns from, and how.

    method      "distill", "ppo" or "zero"
    labels      the folder of labels that it learns from (distill) or is graded by; without, some are made for grading
    shards      how many of the folder's shards it takes: the same when it is resumed, unless more are asked for
    without     a folder of standard sets, whose positions are neither learnt from nor graded by
    start       the folder of a network to begin from; None begins anew
    graded      positions of each third of the board that networks are graded by
    opponents   whom networks that learn by playing are tried against at every grading, and
    trials      in how many games each
    heads       the number of heads by share of training done, ((0.0, 4), (0.5, 8)); () for a constant number
    options     of the method (`PpoOptions`, `ZeroOptions`)
    """

    method: str = "distill"
    labels: str | None = None
    shards: int = 0
    without: str | None = None
    start: str | None = None
    graded: int = 3000
    opponents: tuple[str, ...] = ("random", "greedy")
    trials: int = 100
    heads: tuple[tuple[float, int], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be {', '.join(METHODS[:-1])} or {METHODS[-1]}, got {self.method!r}")
        if self.method == "distill" and self.labels is None:
            raise ValueError("distillation learns from labels: make some with regard connectx label, give --labels")
        if self.graded < 1:
            raise ValueError(f"graded must be at least 1, got {self.graded}")
        for name in ("heads", "options"):  # JSON has lists
            object.__setattr__(self, name, tuple((key, value) for key, value in getattr(self, name)))
        object.__setattr__(self, "opponents", tuple(self.opponents))


@dataclass(frozen=True)
class Finished:
    """A run that is done, and what it reached."""

    folder: Path
    results: dict[str, Any]
    first: bool


def start(
    plan: Plan,
    config: models.BoardConfig,
    settings: training.Settings,
    folder: str | os.PathLike[str],
    *,
    device: str | None = None,
    tensorboard: bool = False,
    shown: Shown = lambda row: None,
) -> Finished:
    """Train a network by the plan, into a folder that is not there yet.

    A plan that starts from a network goes with the configuration that `grown` gives.
    """
    path = Path(folder)
    if plan.start is not None and config != grown(plan.start, config.layers):
        raise ValueError(f"{plan.start} has another configuration than the one given; take starting.grown(…)")
    with training.joined(device) as ranks:
        if (path / "run.json").exists() or (path.is_dir() and any(path.iterdir())):
            raise ValueError(f"{path} exists already; go on with --resume {path}, or write elsewhere with --out")
        ranks.wait()
        if plan.labels is not None:
            plan = replace(plan, shards=len(shards(Path(plan.labels))))
        if ranks.first:
            path.mkdir(parents=True, exist_ok=True)
            write_about(path, plan.method, asdict(plan), config, settings)
        ranks.wait()
        return _go(plan, config, settings, path, ranks, tensorboard, shown)


def grown(folder: str | os.PathLike[str], layers: int | None = None) -> models.BoardConfig:
    """The configuration of a network to start from, with as many layers or more, and without its memory."""
    net = _begun(folder)
    return models.deepen(net, net.config.layers if layers is None else layers).config


def resume(
    folder: str | os.PathLike[str],
    *,
    more: bool = False,
    device: str | None = None,
    tensorboard: bool = False,
    shown: Shown = lambda row: None,
) -> Finished:
    """Go on with a run where its last checkpoint left it; `more` takes the labels that were made since."""
    path = Path(folder)
    about = read_about(path)
    if about.get("results"):
        raise ValueError(f"{path} is finished; to train longer, begin a new run with --start {path}")
    plan, config, settings = read_plan(about)
    with training.joined(device) as ranks:
        if more and plan.labels is not None:
            plan = replace(plan, shards=len(shards(Path(plan.labels))))
            if ranks.first:
                write_about(path, plan.method, asdict(plan), config, settings)
            ranks.wait()
        return _go(plan, config, settings, path, ranks, tensorboard, shown, anew=more)


def default_settings(method: str, **changes: Any) -> training.Settings:
    """How a method trains unless told otherwise: an hour.

    >>> default_settings("distill", minutes=5).batch
    256
    """
    if changes.get("steps") is None and changes.get("minutes") is None:
        changes["minutes"] = 60.0
    return training.Settings(**{"steps": None, **SETTINGS.get(method, {}), **changes})


def read_options(method: str, given: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """Options of a method from texts such as "games=64".

    >>> read_options("ppo", ["games=64", "trace=0.8"])
    (('games', 64), ('trace', 0.8))
    """
    kinds: dict[str, Any] = {"ppo": PpoOptions, "zero": ZeroOptions}
    known = {field.name: field.type for field in fields(kinds[method])} if method in kinds else {}
    found = []
    for text in given:
        name, _, value = text.partition("=")
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(f"{method} has no option {name!r}; it has {listed}")
        try:
            found.append((name, int(value) if known[name] in (int, "int") else float(value)))
        except ValueError:
            raise ValueError(f"--set takes name=number, got {text!r}") from None
    return tuple(found)


def training_plan(folder: str | os.PathLike[str]) -> tuple[Plan, models.BoardConfig, training.Settings]:
    """What a run is made of."""
    return read_plan(read_about(folder))


def read_plan(about: dict[str, Any]) -> tuple[Plan, models.BoardConfig, training.Settings]:
    """The plan, the network and the settings of a run, from its run.json."""
    return Plan(**about["plan"]), models.BoardConfig.from_dict(about["network"]), training.Settings(**about["settings"])


def _go(
    plan: Plan, config: models.BoardConfig, settings: training.Settings, path: Path, ranks: training.Ranks,
    tensorboard: bool, shown: Shown, *, anew: bool = False,
) -> Finished:  # fmt: skip
    learnt, held = _labels(plan, path, ranks)
    with _seeded(settings.seed):
        net = models.BoardNet(config)
        if plan.start is not None and training.latest(path / "checkpoints") is None:
            net = models.deepen(_begun(plan.start), config.layers)
    method, every = _method(plan, net, learnt, settings, ranks)
    chosen = some_of_each(held, plan.graded)

    def graded(now: models.BoardNet) -> Metrics:
        row = grade(now, chosen) | ({} if learnt is None else {"labels": len(learnt)})
        if plan.method != "distill":
            row |= won_against(now, plan.opponents, games=plan.trials)
        return row

    # Doubt tells networks apart that are taught what is good. Who plays himself becomes sure of what he plays, and by
    # doubt the one who has only just begun would be chosen.
    best_by = "doubt" if plan.method == "distill" else "error"
    course = Course(method, graded, settings, path, ranks, shown, tensorboard, every, anew, best_by)
    standing = course.run()
    results = _results(standing, path, chosen)
    if ranks.first:
        write_about(path, plan.method, asdict(plan), config, settings, results)
    ranks.wait()
    return Finished(path, results, ranks.first)


def _method(
    plan: Plan, net: models.BoardNet, learnt: Labels | None, settings: training.Settings, ranks: training.Ranks
) -> tuple[Method, int]:
    """The method, and after how many updates it speaks."""
    if plan.method == "distill":
        assert learnt is not None
        schedule = models.HeadSchedule(plan.heads) if plan.heads else None
        return Distill(net, Deck(learnt, settings.batch, settings.seed), settings, ranks, schedule), 20
    options = dict(plan.options)
    if plan.method == "ppo":
        return Ppo(net, settings, ranks, PpoOptions(**options)), 1
    return Zero(net, settings, ranks, ZeroOptions(**options)), 10


def _labels(plan: Plan, path: Path, ranks: training.Ranks) -> tuple[Labels | None, Labels]:
    """What is learnt from, and what is graded by."""
    if plan.labels is not None:
        labels = read_labels(plan.labels, most=plan.shards)
        if plan.without is not None:
            labels = labels.without(*set_bitboards(plan.without))
        return labels.split()
    folder = path / "graded"
    if ranks.first and not (folder.exists() and shards(folder)):
        label(folder, LabelOptions(seed=FRESH_SEED, fewest=12), positions=FRESH)
    ranks.wait()
    return None, read_labels(folder)


def _results(standing: Standing, path: Path, held: Labels) -> dict[str, Any]:
    """What the best network reached, and what it took."""
    net = _loaded(path)
    return {
        "steps": standing.step,
        "positions": standing.positions,
        "seconds": round(standing.seconds, 1),
        "processor_seconds": round(standing.processor_seconds, 1),
        "best_step": standing.best_step,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "graded_on": len(held),
        "alone": grade(net, held),
        "mirrored": grade(net, held, mirror=True, by_ply=False),
    }


def _begun(folder: str | os.PathLike[str]) -> models.BoardNet:
    """A network to start from. Its memory is left behind: it makes up for what these weights get wrong, so that they
    would not learn it, and does not fit others."""
    return models.with_opening_table(_loaded(folder))


def _loaded(folder: str | os.PathLike[str]) -> models.BoardNet:
    net = models.load(folder)
    if not isinstance(net, models.BoardNet):
        raise ValueError(f"{folder} holds a {type(net).__name__}, not a board network")
    return net


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
