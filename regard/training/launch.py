"""Start or resume a run, then test its best model and record the results in run.json."""

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from regard.durations import format_duration
from regard.files import lock_run
from regard.training.checkpoint import check_checkpoint
from regard.training.data.examples import TextExamples, unigram_loss
from regard.training.data.pairs import Pair
from regard.training.distributed import Ranks, is_restarted, join_ranks
from regard.training.loop import Loop
from regard.training.metrics import Metrics
from regard.training.run import RUNS, Run, find_run, load, read_config, read_run
from regard.training.run_config import PreparedRun, RunConfig, prepare
from regard.training.run_json import remove_temporary_files, require_free_folder, write_run_file
from regard.training.supervised import Supervised, mean_loss
from regard.training.tokenizer import Tokenizer

Report = Callable[[Metrics], None]


@dataclass(frozen=True)
class TrainingResult:
    """A finished run, its results, and sample texts with the expected results, if known.

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
        if "unigram_loss" in results:
            lines[-1] += f"; by the frequency of the tokens alone (unigram model) {results['unigram_loss']:.4f}"
        if "exact_match" in results:
            share, tested = 100 * results["exact_match"], results["tested"]
            lines.append(f"held-out test: {share:.2f} % of {tested:,} translations exactly right")
        return lines


def free_folder(config: RunConfig) -> Path:
    """Return runs/TASK-DATA below the current folder, with a number appended if that exists already.

    A process that torchrun has started again returns the last folder that exists: the one chosen before.
    """
    names = [Path(name).stem for name in config.data]
    base = "-".join([config.task, *names[:2], *([config.model] if config.model != "transformer" else [])])
    folders = [RUNS / base]
    while folders[-1].exists():
        folders.append(RUNS / f"{base}-{len(folders) + 1}")
    return folders[-2] if is_restarted() and len(folders) > 1 else folders[-1]


def train(
    config: RunConfig, folder: str | os.PathLike[str] | None = None, *, device: str | None = None,
    tensorboard: bool = False, telemetry: int | None = None, report: Report = lambda row: None,
    note: Callable[[str], None] = lambda text: None,
) -> TrainingResult:  # fmt: skip
    """Train a model and write the run into a new folder.

    Args:
        config: from `make_run_config`.
        folder: folder of the run, which must not exist or be empty; None chooses one below runs/.
        device: "cpu" or "cuda"; None uses cuda if there is one.
        tensorboard: write the metrics for TensorBoard, too.
        telemetry: measure the attention heads every so many updates, and write telemetry.jsonl.
        report: called with every row of metrics, and with alarms of telemetry ("split" is "telemetry").
        note: called with a text for each kind of line that is skipped or changed in the data.

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
    path = free_folder(config) if folder is None else Path(folder)
    if is_restarted() and _is_run_of(path, config):
        return finished(path) or resume(path, device=device, tensorboard=tensorboard, report=report)
    with join_ranks(device) as ranks:
        ranks.wait()  # the first rank creates the folder after all ranks have chosen it
        require_free_folder(path)
        ranks.wait()
        prepared = prepare(config)
        if ranks.first:
            for text in prepared.notes:
                note(text)
            path.mkdir(parents=True, exist_ok=True)
            prepared.tokenizer.save(path / "tokenizer.json")
            write_run_file(path, {"plan": prepared.config.to_json()})
        ranks.wait()
        with lock_run(path) if ranks.first else nullcontext():
            return _train(prepared, path, ranks, tensorboard, telemetry, report)


def _is_run_of(path: Path, config: RunConfig) -> bool:
    """Return whether the folder has a run with this task, these data and these settings."""
    if not (path / "run.json").is_file():
        return False
    stored = read_config(path)
    return (stored.task, stored.data, stored.settings) == (config.task, config.data, config.settings)


def resume(
    folder: str | os.PathLike[str], *, device: str | None = None, tensorboard: bool = False,
    telemetry: int | None = None, report: Report = lambda row: None,
) -> TrainingResult:  # fmt: skip
    """Continue a stopped run from its last checkpoint.

    folder                  folder of the run, or the name of a run
    device, tensorboard     as for `train`
    telemetry, report       as for `train`

    >>> resume("phrases")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: .../phrases is finished; to train longer, start a new run with more steps
    """
    path = find_run(folder)
    _refuse_finished(path)
    with join_ranks(device) as ranks, lock_run(path) if ranks.first else nullcontext():
        _refuse_finished(path)
        if ranks.first:
            remove_temporary_files(path)
        tokenizer = Tokenizer.load(path / "tokenizer.json")
        prepared = prepare(read_config(path), tokenizer, partial(check_checkpoint, path))
        return _train(prepared, path, ranks, tensorboard, telemetry, report)


def _refuse_finished(path: Path) -> None:
    if read_run(path).get("results"):
        raise ValueError(f"{path} is finished; to train longer, start a new run with more steps")


def finished(folder: str | os.PathLike[str]) -> TrainingResult | None:
    """Return the result of a finished run, without training; None if the run is not finished.

    >>> finished("phrases").results["steps"]
    1500
    """
    path = find_run(folder)
    results = read_run(path).get("results")
    if not results:
        return None
    samples = tuple((source, expected) for source, expected in results.get("samples", ()))
    return TrainingResult(load(path), results, samples)


def _train(
    prepared: PreparedRun, path: Path, ranks: Ranks, tensorboard: bool, telemetry: int | None, report: Report
) -> TrainingResult:
    settings = prepared.config.settings
    algorithm = Supervised(prepared.model, prepared.training, settings, ranks)

    def evaluate(model: Any) -> Metrics:
        return {"loss": mean_loss(model, prepared.validation, settings, ranks)}

    state = Loop(algorithm, evaluate, settings, path, ranks, report, tensorboard, telemetry_every=telemetry).run()
    run = load(path)
    results: dict[str, Any] = {
        "steps": state.step, "tokens": state.count, "seconds": round(state.seconds, 1),
        "processor_seconds": round(state.processor_seconds, 1), "valid_loss": state.best_metric,
        "best_step": state.best_step, "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
    }  # fmt: skip
    if ranks.first:
        if prepared.test:
            results |= exact_match(run, prepared.test)
        if isinstance(prepared.training, TextExamples) and isinstance(prepared.validation, TextExamples):
            results["unigram_loss"] = unigram_loss(prepared.training, prepared.validation, settings.batch)
        results["samples"] = [list(sample) for sample in prepared.samples]
        write_run_file(path, {"plan": prepared.config.to_json()}, results)
        shutil.rmtree(path / "checkpoints", ignore_errors=True)
    ranks.wait()
    return TrainingResult(run, results, prepared.samples, ranks.first)


def exact_match(run: Run, pairs: tuple[Pair, ...]) -> dict[str, Any]:
    """Return the fraction of pairs that the model translates exactly, and their number."""
    translations = run.translate([source for source, _ in pairs])
    right = sum(translation == target for translation, (_, target) in zip(translations, pairs, strict=True))
    return {"exact_match": right / len(pairs), "tested": len(pairs)}
