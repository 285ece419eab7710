"""Runs of board networks: configure, start, resume and evaluate them; `regard connectx train` calls this module."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from regard import models
from regard.connectx.arena.move_quality import set_bitboards
from regard.connectx.data.label_positions import LabelOptions, label
from regard.connectx.data.label_storage import Labels, read_labels, shards
from regard.connectx.players.network_player import load_network
from regard.connectx.training.alphazero import AlphaZero, AlphaZeroOptions
from regard.connectx.training.distillation import Distillation, LabelBatches
from regard.connectx.training.evaluation import balanced_sample, evaluate_network, win_rates
from regard.connectx.training.ppo import Ppo, PpoOptions
from regard.files import dataclass_from_json, explain_damage, lock_run
from regard.parallel import Engine
from regard.training.checkpoint import check_checkpoint, latest_checkpoint
from regard.training.distributed import Ranks, is_restarted, join_ranks
from regard.training.loop import Algorithm, Loop
from regard.training.metrics import Metrics
from regard.training.run_json import RESTORE, read_run_file, require_free_folder, write_run_file
from regard.training.settings import Settings

METHODS = ("distill", "ppo", "zero")
OPTIONS: dict[str, Any] = {"ppo": PpoOptions, "zero": AlphaZeroOptions}
EVALUATION_LABELS = 1500  # positions that are solved for the evaluation if a run has no labels
EVALUATION_SEED = 999_983  # seed of the games of those positions; labels for training use other seeds

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

# Old field names in run.json files of earlier versions, and their current names.
OLD_FIELDS = {
    "graded": "evaluation_positions", "trials": "games_per_opponent", "heads": "head_schedule",
    "without": "excluded_sets",
}  # fmt: skip

Report = Callable[[Metrics], None]


@dataclass(frozen=True)
class BoardRunConfig:
    """Settings of a run: the method, its data and starting network, and the evaluation."""

    method: str = "distill"  # or "ppo" or "zero"
    labels: str | None = None  # folder of labels to learn from (distill) and to evaluate on; None solves some
    shards: int = 0  # number of files of `labels` in use; later files are ignored when resuming
    excluded_sets: str | None = None  # folder of the standard sets; their positions are excluded from the labels
    start: str | None = None  # folder of a network to start from; None starts with random weights
    evaluation_positions: int = 3000  # positions per third of a game in an evaluation
    opponents: tuple[str, ...] = ("random", "greedy")  # players that a self-play network meets at every evaluation
    games_per_opponent: int = 100
    head_schedule: tuple[tuple[float, int], ...] = ()  # (progress, heads), as in `HeadSchedule`; () keeps the number
    options: tuple[tuple[str, Any], ...] = ()  # (name, value) of the method's `PpoOptions` or `AlphaZeroOptions`

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be {', '.join(METHODS[:-1])} or {METHODS[-1]}, got {self.method!r}")
        if self.method == "distill" and self.labels is None:
            raise ValueError("distillation needs labels: make some with regard connectx label and give --labels FOLDER")
        if self.evaluation_positions < 1:
            raise ValueError(f"evaluation_positions must be at least 1, got {self.evaluation_positions}")
        if self.shards < 0 or self.games_per_opponent < 0:
            raise ValueError(
                f"expected counts of at least 0, got {self.shards} shards, {self.games_per_opponent} games"
            )
        for name in ("head_schedule", "options"):  # JSON has lists
            object.__setattr__(self, name, tuple((key, value) for key, value in getattr(self, name)))
        object.__setattr__(self, "opponents", tuple(self.opponents))


@dataclass(frozen=True)
class BoardTrainingResult:
    """A finished run and its results; `first` is False in the additional processes of a distributed run."""

    folder: Path
    results: dict[str, Any]
    first: bool


def train(
    folder: str | os.PathLike[str], method: str = "distill", *, labels: str | os.PathLike[str] | None = None,
    start: str | os.PathLike[str] | None = None, preset: str | None = None, sizes: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None, device: str | None = None, report: Report = lambda row: None,
    **settings: Any,
) -> BoardTrainingResult:  # fmt: skip
    """Train a board network, by default for an hour, and write the run into a new folder.

    Args:
        folder: folder of the run, which must not exist or be empty.
        method: "distill" learns from solved positions, "ppo" and "zero" learn from games against themselves.
        labels: folder that `regard connectx label` wrote; needed by "distill".
        start: folder of a network to start from, without its opening table; None starts with random weights.
        preset: preset of `BoardNet`; None takes "small" for "distill" and "tiny" for self-play.
        sizes: changes to the preset, such as {"channels": 32}; with `start`, only {"layers": N}.
        options: options of "ppo" or "zero", such as {"games": 64}.
        device: "cpu" or "cuda"; None uses cuda if there is one.
        report: called with every row of metrics.
        settings: fields of `regard.training.Settings`, such as minutes=20 or steps=1000, seed=1.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.connectx import LabelOptions, label
    >>> with TemporaryDirectory() as folder:
    ...     _ = label(f"{folder}/labels", LabelOptions((4, 5, 3), fewest=3), positions=200)
    ...     sizes = {"channels": 8, "heads": 2, "layers": 2, "attn_every": 1, "lines": 3}
    ...     result = train(f"{folder}/run", labels=f"{folder}/labels", sizes=sizes, steps=2, threads=1)
    >>> result.results["steps"], 0 <= result.results["alone"]["error"] <= 1
    (2, True)
    """
    if preset is not None and not isinstance(preset, str):
        raise TypeError(
            f"preset must be the name of a preset, got a {type(preset).__name__}; docs/research.md shows how to train "
            "a network of your own with LabelBatches and DistillationLoss"
        )
    config = BoardRunConfig(
        method, labels=None if labels is None else str(labels), start=None if start is None else str(start),
        options=tuple((options or {}).items()),
    )  # fmt: skip
    network = network_config(method, preset, start, **(sizes or {}))
    return start_run(config, network, default_settings(method, **settings), folder, device=device, report=report)


def network_config(
    method: str, preset: str | None = None, start: str | os.PathLike[str] | None = None, **sizes: Any
) -> models.BoardConfig:
    """Return the configuration of a new network, or of one that starts from another network's weights.

    >>> network_config("ppo", channels=32).norm
    'group'
    """
    if start is not None:
        fixed = [name for name in ({} if preset is None else {"preset": preset}) | sizes if name != "layers"]
        if fixed:
            raise ValueError(f"the network to start from determines {', '.join(fixed)}; only layers can be given")
        return extended_config(start, sizes.get("layers"))
    defaults: dict[str, Any] = {"score": "columns", "lines": 4}
    if method == "ppo":
        defaults["norm"] = "group"  # batch norms differ between play and training
    return models.BoardConfig.preset(preset or ("small" if method == "distill" else "tiny"), **{**defaults, **sizes})


def extended_config(folder: str | os.PathLike[str], layers: int | None = None) -> models.BoardConfig:
    """Return the configuration of the network in `folder`, with `layers` layers if given, and no opening table."""
    network = _starting_network(folder)
    return models.deepen(network, network.config.layers if layers is None else layers).config


def start_run(
    config: BoardRunConfig, network: models.BoardConfig, settings: Settings, folder: str | os.PathLike[str], *,
    device: str | None = None, tensorboard: bool = False, engine: Engine | None = None,
    report: Report = lambda row: None,
) -> BoardTrainingResult:  # fmt: skip
    """Train a network and write the run into a new folder.

    The engine plays the games of the method "zero"; by default this process does.
    A run that starts from another network needs the configuration that `network_config` returns for it.
    """
    path = Path(folder)
    if config.start is not None and network != extended_config(config.start, network.layers):
        raise ValueError(f"the configuration given differs from that of {config.start}; use network_config(start=…)")
    if is_restarted() and (path / "run.json").is_file() and read_board_configs(path)[1:] == (network, settings):
        return finished(path) or resume_run(path, device=device, tensorboard=tensorboard, engine=engine, report=report)
    with join_ranks(device) as ranks:
        require_free_folder(path)
        ranks.wait()
        if config.labels is not None:
            config = replace(config, shards=len(shards(Path(config.labels))))
        if ranks.first:
            path.mkdir(parents=True, exist_ok=True)
            _write(path, config, network, settings)
        ranks.wait()
        with lock_run(path) if ranks.first else nullcontext():
            return _train(config, network, settings, path, ranks, tensorboard, report, engine=engine)


def resume_run(
    folder: str | os.PathLike[str], *, new_labels: bool = False, device: str | None = None, tensorboard: bool = False,
    engine: Engine | None = None, report: Report = lambda row: None,
) -> BoardTrainingResult:  # fmt: skip
    """Continue a stopped run from its last checkpoint; `new_labels` also uses labels made since it started."""
    path = Path(folder)
    if read_board_run(path).get("results"):
        raise ValueError(f"{path} is finished; to train longer, start a new run with --start {path}")
    with join_ranks(device) as ranks, lock_run(path) if ranks.first else nullcontext():
        config, network, settings = read_board_configs(path)
        if new_labels and config.labels is not None:
            config = replace(config, shards=len(shards(Path(config.labels))))
            if ranks.first:
                _write(path, config, network, settings)
            ranks.wait()
        return _train(
            config, network, settings, path, ranks, tensorboard, report, reevaluate_best=new_labels, engine=engine
        )


def finished(folder: str | os.PathLike[str]) -> BoardTrainingResult | None:
    """Return the result of a finished run, without training; None if the run is not finished."""
    results = read_board_run(folder).get("results")
    return BoardTrainingResult(Path(folder), results, os.environ.get("RANK", "0") == "0") if results else None


def default_settings(method: str, **changes: Any) -> Settings:
    """Return the settings of a method with changes; the training takes an hour if neither steps nor minutes are given.

    >>> default_settings("distill", minutes=5).batch
    256
    """
    if changes.get("steps") is None and changes.get("minutes") is None:
        changes["minutes"] = 60.0
    return Settings(**{"steps": None, **SETTINGS.get(method, {}), **changes})


def parse_options(method: str, texts: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """Return the options of a method from texts such as "games=64".

    >>> parse_options("ppo", ["games=64", "trace=0.8"])
    (('games', 64), ('trace', 0.8))
    """
    types = {field.name: field.type for field in fields(OPTIONS[method])} if method in OPTIONS else {}
    options = []
    for text in texts:
        name, _, value = text.partition("=")
        if name not in types:
            raise ValueError(f"{method} has no option {name!r}; its options are {', '.join(types) or 'none'}")
        try:
            options.append((name, int(value) if types[name] in (int, "int") else float(value)))
        except ValueError:
            raise ValueError(f"--set takes NAME=NUMBER, got {text!r}") from None
    return tuple(options)


def read_board_run(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of the run.json of a board network."""
    return read_run_file(Path(folder), ("method", "plan", "network", "settings"), "regard connectx train")


def read_board_configs(folder: str | os.PathLike[str]) -> tuple[BoardRunConfig, models.BoardConfig, Settings]:
    """Return the configuration of a run, its network and its settings, from run.json."""
    content = read_board_run(folder)
    with explain_damage(Path(folder) / "run.json", "a run of regard connectx train", RESTORE):
        plan = {OLD_FIELDS.get(name, name): value for name, value in content["plan"].items()}
        network = models.BoardConfig.from_dict(content["network"])
        return dataclass_from_json(BoardRunConfig, plan), network, dataclass_from_json(Settings, content["settings"])


def _write(
    path: Path, config: BoardRunConfig, network: models.BoardConfig, settings: Settings,
    results: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    content = {"plan": asdict(config), "network": network.to_dict(), "settings": asdict(settings)}
    write_run_file(path, {"method": config.method, **content}, results)


def _train(
    config: BoardRunConfig, board_config: models.BoardConfig, settings: Settings, path: Path, ranks: Ranks,
    tensorboard: bool, report: Report, *, reevaluate_best: bool = False, engine: Engine | None = None,
) -> BoardTrainingResult:  # fmt: skip
    training_labels, held_out = _load_labels(config, path, ranks)
    check_checkpoint(path, models.BoardNet, board_config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = models.BoardNet(board_config)
        if config.start is not None and latest_checkpoint(path / "checkpoints") is None:
            network = models.deepen(_starting_network(config.start), board_config.layers)
    algorithm, report_every = _make_algorithm(config, network, training_labels, settings, ranks, engine)
    sample = balanced_sample(held_out, config.evaluation_positions)

    def evaluate(network: models.BoardNet) -> Metrics:
        metrics = evaluate_network(network, sample)
        if training_labels is not None:
            metrics["labels"] = len(training_labels)
        if config.method != "distill":
            metrics |= win_rates(network, config.opponents, games=config.games_per_opponent)
        return metrics

    # `doubt` separates networks that are taught good moves. A network trained by self-play grows certain of whatever
    # it plays, so that `doubt` would select the first one.
    loop = Loop(
        algorithm, evaluate, settings, path, ranks, report, tensorboard, report_every=report_every,
        selection_metric="doubt" if config.method == "distill" else "error", evaluation_split="grade",
        evaluate_on_all_ranks=False, reevaluate_best=reevaluate_best,
    )  # fmt: skip
    with closing(algorithm) if isinstance(algorithm, AlphaZero) else nullcontext():
        state = loop.run()
    network = load_network(path).float()
    results = {
        "steps": state.step, "positions": state.count, "seconds": round(state.seconds, 1),
        "processor_seconds": round(state.processor_seconds, 1), "best_step": state.best_step,
        "parameters": sum(parameter.numel() for parameter in network.parameters()), "graded_on": len(sample),
        "alone": evaluate_network(network, sample),
        "mirrored": evaluate_network(network, sample, mirror=True, by_ply=False),
    }  # fmt: skip
    if ranks.first:
        _write(path, config, board_config, settings, results)
    ranks.wait()
    return BoardTrainingResult(path, results, ranks.first)


def _make_algorithm(
    config: BoardRunConfig, network: models.BoardNet, labels: Labels | None, settings: Settings, ranks: Ranks,
    engine: Engine | None,
) -> tuple[Algorithm, int]:  # fmt: skip
    """Return the algorithm, and the number of updates between two rows of training metrics."""
    if config.method == "distill":
        assert labels is not None
        schedule = models.HeadSchedule(config.head_schedule) if config.head_schedule else None
        batches = LabelBatches(labels, settings.batch, settings.seed)
        return Distillation(network, batches, settings, ranks, schedule), 20
    if config.method == "ppo":
        return Ppo(network, settings, ranks, PpoOptions(**dict(config.options))), 1
    return AlphaZero(network, settings, ranks, AlphaZeroOptions(**dict(config.options)), engine), 10


def _load_labels(config: BoardRunConfig, path: Path, ranks: Ranks) -> tuple[Labels | None, Labels]:
    """Return the labels for training, if any, and those for evaluation."""
    if config.labels is not None:
        labels = read_labels(config.labels, most=config.shards)
        if config.excluded_sets is not None:
            labels = labels.without(*set_bitboards(config.excluded_sets))
        return labels.split()
    folder = path / "graded"
    if ranks.first and not (folder.exists() and shards(folder)):
        label(folder, LabelOptions(seed=EVALUATION_SEED, fewest=12), positions=EVALUATION_LABELS)
    ranks.wait()
    return None, read_labels(folder)


def _starting_network(folder: str | os.PathLike[str]) -> models.BoardNet:
    """Load a network to start from, without its opening table.

    The table corrects the errors of the old weights: with it the new weights would not learn to avoid those errors,
    and it does not fit other weights.
    """
    return models.with_opening_table(load_network(folder).float())
