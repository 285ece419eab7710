"""Start or resume a run, then test its best model and record the results in run.json."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.durations import format_duration
from regard.training.data.pairs import Pair
from regard.training.distributed import Ranks, join_ranks
from regard.training.loop import Loop
from regard.training.metrics import Metrics
from regard.training.run import RUNS, Run, find_run, load, read_config, read_run
from regard.training.run_config import PreparedRun, RunConfig, prepare
from regard.training.run_json import require_free_folder, write_run_file
from regard.training.supervised import Supervised, mean_loss
from regard.training.tokenizer import Tokenizer

Report = Callable[[Metrics], None]


@dataclass(frozen=True)
class TrainingResult:
    """A finished run, its results, and sample texts with their expected translations, if known.

    `first` is False in the additional processes of a distributed run.
    """

    run: Run
    results: dict[str, Any]
    samples: tuple[tuple[str, str | None], ...]
    first: bool = True

    def report(self) -> list[str]:
        """Return the results as lines of text."""
        results = self.results
        lines = [
            f"{self.run.folder}: {results['parameters']:,} parameters",
            f"{results['steps']:,} steps, {results['tokens']:,} tokens in {format_duration(results['seconds'])} "
            f"({format_duration(results['processor_seconds'])} of CPU time)",
            f"validation loss {results['valid_loss']:.4f} at step {results['best_step']:,}",
        ]
        if "exact_match" in results:
            share, tested = 100 * results["exact_match"], results["tested"]
            lines.append(f"held-out test: {share:.2f} % of {tested:,} translations exactly right")
        return lines


def free_folder(config: RunConfig) -> Path:
    """Return runs/TASK-DATA below the current folder, with a number appended if that exists already."""
    names = [Path(name).stem for name in config.data]
    base = "-".join([config.task, *names[:2], *([config.model] if config.model != "transformer" else [])])
    number, folder = 1, RUNS / base
    while folder.exists():
        number += 1
        folder = RUNS / f"{base}-{number}"
    return folder


def train(
    config: RunConfig, folder: str | os.PathLike[str] | None = None, *, device: str | None = None,
    tensorboard: bool = False, report: Report = lambda row: None,
) -> TrainingResult:  # fmt: skip
    """Train a model and write the run into a new folder.

    Args:
        config: from `make_run_config`.
        folder: folder of the run, which must not exist or be empty; None chooses one below runs/.
        device: "cpu" or "cuda"; None uses cuda if there is one.
        tensorboard: write the metrics for TensorBoard, too.
        report: called with every row of metrics.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.training import make_run_config
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pairs.tsv"
    ...     _ = file.write_text("".join(f"word {n}\\tWort {n}\\n" for n in range(40)))
    ...     sizes = {"d_model": 8, "heads": 2, "layers": 1}
    ...     config = make_run_config("translate", (str(file),), tokenizer="words", sizes=sizes, settings={"steps": 2})
    ...     result = train(config, Path(folder) / "run")
    >>> result.results["steps"], result.results["tested"]
    (2, 2)
    """
    with join_ranks(device) as ranks:
        path = free_folder(config) if folder is None else Path(folder)
        ranks.wait()  # the first rank creates the folder after all ranks have chosen it
        require_free_folder(path)
        ranks.wait()
        prepared = prepare(config)
        if ranks.first:
            path.mkdir(parents=True, exist_ok=True)
            prepared.tokenizer.save(path / "tokenizer.json")
            write_run_file(path, {"plan": prepared.config.to_json()})
        ranks.wait()
        return _train(prepared, path, ranks, tensorboard, report)


def resume(
    folder: str | os.PathLike[str], *, device: str | None = None, tensorboard: bool = False,
    report: Report = lambda row: None,
) -> TrainingResult:  # fmt: skip
    """Continue a stopped run from its last checkpoint.

    >>> resume("phrases")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: .../phrases is finished; to train longer, start a new run with more steps
    """
    path = find_run(folder)
    if read_run(path).get("results"):
        raise ValueError(f"{path} is finished; to train longer, start a new run with more steps")
    with join_ranks(device) as ranks:
        prepared = prepare(read_config(path), Tokenizer.load(path / "tokenizer.json"))
        return _train(prepared, path, ranks, tensorboard, report)


def _train(prepared: PreparedRun, path: Path, ranks: Ranks, tensorboard: bool, report: Report) -> TrainingResult:
    settings = prepared.config.settings
    algorithm = Supervised(prepared.model, prepared.training, settings, ranks)

    def evaluate(model: Any) -> Metrics:
        return {"loss": mean_loss(model, prepared.validation, settings, ranks)}

    state = Loop(algorithm, evaluate, settings, path, ranks, report, tensorboard).run()
    run = load(path)
    results: dict[str, Any] = {
        "steps": state.step, "tokens": state.count, "seconds": round(state.seconds, 1),
        "processor_seconds": round(state.processor_seconds, 1), "valid_loss": state.best_metric,
        "best_step": state.best_step, "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
    }  # fmt: skip
    if ranks.first:
        if prepared.test:
            results |= exact_match(run, prepared.test)
        write_run_file(path, {"plan": prepared.config.to_json()}, results)
        shutil.rmtree(path / "checkpoints", ignore_errors=True)
    ranks.wait()
    translations = dict(prepared.test)
    samples = tuple((source, translations.get(source)) for source in prepared.samples)
    return TrainingResult(run, results, samples, ranks.first)


def exact_match(run: Run, pairs: tuple[Pair, ...]) -> dict[str, Any]:
    """Return the fraction of pairs that the model translates exactly, and their number."""
    translations = run.translate([source for source, _ in pairs])
    right = sum(translation == target for translation, (_, target) in zip(translations, pairs, strict=True))
    return {"exact_match": right / len(pairs), "tested": len(pairs)}
