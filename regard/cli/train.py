"""`regard train`: train a text model to translate, to continue text or to fill in masked words."""

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.errors import is_user_error
from regard.cli.options import argument, flag, option

if TYPE_CHECKING:
    from rich.console import Console

    from regard.training.launch import TrainingResult
    from regard.training.run import Run

TELEMETRY_EVERY = 50  # updates
DRAWN = 40  # tokens on each side of a picture of an alignment
SAMPLING: dict[str, Any] = {"temperature": 0.8, "top_k": 40, "seed": 0}  # of language models, unless options say else


def train(
    task: Annotated[str | None, argument("TASK", "What to train: translate, language or masked.")] = None,
    data: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Data: phrases, dates or FILE.tsv for translate; python or text files (repeat the option) otherwise; "
            "repeats for language: random tokens that repeat, from which induction heads form. Of "
            "FILE.tsv, lines without two texts and texts of more than 256 tokens (or --context) are skipped.",
        ),
    ] = None,
    model: Annotated[str | None, option("NAME", "Kind of model: transformer, lstm or lstm-attention.")] = None,
    steps: Annotated[int | None, option("N", "Stop after this many updates.")] = None,
    minutes: Annotated[float | None, option("N", "Stop after this many minutes.")] = None,
    out: Annotated[str | None, option("RUN", "Folder of the new run; runs/TASK-DATA by default.")] = None,
    resume: Annotated[
        str | None, option("RUN", "Continue this stopped run, or draw the missing pictures of a finished one.")
    ] = None,
    batch: Annotated[int | None, option("N", "Examples per update, summed over all processes.")] = None,
    accumulate: Annotated[int | None, option("N", "Compute each batch in N successive parts, to save memory.")] = None,
    optimizer: Annotated[str | None, option("NAME", "Optimizer: adamw or muon.")] = None,
    learning_rate: Annotated[float | None, option("X", "Peak learning rate.")] = None,
    warmup: Annotated[int | None, option("N", "Steps in which the learning rate rises to its peak.")] = None,
    weight_decay: Annotated[float | None, option("X", "Weight decay, applied to matrices only.")] = None,
    clip: Annotated[float | None, option("X", "Maximum norm of the gradient.")] = None,
    dropout: Annotated[float | None, option("X", "Dropout probability.")] = None,
    d_model: Annotated[int | None, option("N", "Model width D.")] = None,
    layers: Annotated[int | None, option("N", "Layers of the encoder and of the decoder.")] = None,
    heads: Annotated[int | None, option("N", "Attention heads per layer.")] = None,
    context: Annotated[int | None, option("N", "Maximum length of a sequence, in tokens.")] = None,
    tokenizer: Annotated[str | None, option("KIND", "Kind of tokenizer: characters, words or bpe.")] = None,
    vocabulary: Annotated[int | None, option("N", "Maximum number of tokens of a bpe tokenizer; default 1024.")] = None,
    evaluate_every: Annotated[int | None, option("N", "Steps between two evaluations.")] = None,
    checkpoint_every: Annotated[int | None, option("N", "Steps between two checkpoints.")] = None,
    patience: Annotated[int | None, option("N", "Stop after this many evaluations without improvement.")] = None,
    precision: Annotated[str | None, option("NAME", "Precision: float32, or bfloat16 for mixed precision.")] = None,
    store: Annotated[str | None, option("NAME", "Number format of the saved model: float32 or float16.")] = None,
    device: Annotated[str | None, option("NAME", "Device: cpu or cuda; by default cuda if there is one.")] = None,
    seed: Annotated[int | None, option("N", "Seed of the initial weights, the data order and dropout.", min=0)] = None,
    threads: Annotated[int | None, option("N", "Number of CPU threads.")] = None,
    tensorboard: Annotated[bool, flag("--tensorboard", "Write the metrics for TensorBoard, too.")] = False,
    telemetry: Annotated[
        bool,
        flag(
            "--telemetry",
            "Measure the attention heads every 50 updates: telemetry.jsonl, and alarms where attention degenerates.",
        ),
    ] = False,
) -> None:
    """Train a text model, test it, save it and show what it does.

    `regard train translate` learns English → Chinese from a small grammar in about two minutes and draws the alignment
    of its cross-attention. `regard train masked` learns to fill in words of the Python reference and shows its
    candidates. Ctrl-C saves a checkpoint; `--resume RUN` continues from it. To train with several processes:
    torchrun --nproc-per-node 2 -m -- regard train …

    Example: regard train translate --data dates
    """
    if (task is None) == (resume is None):
        raise ValueError("give either a task (translate, language or masked) or --resume RUN")
    from rich.console import Console

    from regard import training
    from regard.training.interrupts import Interrupted
    from regard.training.launch import finished, free_folder
    from regard.training.progress import show_progress
    from regard.training.run import find_run, read_config

    console = Console(stderr=True, quiet=os.environ.get("RANK", "0") != "0")
    sizes = {"d_model": d_model, "layers": layers, "heads": heads, "context": context, "dropout": dropout}
    settings = {
        "steps": steps, "minutes": minutes, "batch": batch, "accumulate": accumulate, "optimizer": optimizer,
        "learning_rate": learning_rate, "warmup": warmup, "weight_decay": weight_decay, "clip": clip,
        "evaluate_every": evaluate_every, "checkpoint_every": checkpoint_every, "patience": patience,
        "precision": precision, "store": store, "seed": seed, "threads": threads,
    }  # fmt: skip
    others = {"data": data, "model": model, "tokenizer": tokenizer, "vocabulary": vocabulary, "out": out}
    if resume is not None:
        refuse_with_resume(sizes | settings | others)
        folder = find_run(resume)
        result = finished(folder)
        if result is not None and (folder / "metrics.jsonl").exists() and (missing := missing_pictures(result)):
            draw(result, missing)
            return
        config = read_config(folder)
    else:
        config = training.make_run_config(
            str(task), tuple(data or ()), model=model or "transformer", tokenizer=tokenizer,
            vocabulary=vocabulary or 1024, sizes=without_none(sizes), settings=without_none(settings),
        )  # fmt: skip
        folder = Path(out) if out is not None else free_folder(config)
    try:
        with show_progress(config.settings, console) as report:
            options: dict[str, Any] = {"device": device, "tensorboard": tensorboard, "report": report}
            options["telemetry"] = TELEMETRY_EVERY if telemetry else None
            if resume is None:
                result = training.train(config, folder, **options, note=lambda text: say(f"{config.data[0]}, {text}"))
            else:
                result = training.resume(folder, **options)
    except Interrupted:
        console.print(f"stopped; a checkpoint is saved. Continue with: regard train --resume {folder}", highlight=False)
        raise typer.Exit(130) from None
    except KeyboardInterrupt:
        how = f"continue from the last checkpoint with: regard train --resume {folder}"
        console.print(f"stopped at once; {how if (folder / 'run.json').exists() else 'nothing was written yet'}")
        raise typer.Exit(130) from None
    if result.first:
        _print_result(result, console)


def without_none(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given on the command line."""
    return {name: value for name, value in options.items() if value is not None}


def refuse_with_resume(options: dict[str, Any]) -> None:
    """Raise an error if options were given that a resumed run cannot change."""
    if changes := without_none(options):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in changes)
        raise ValueError(f"a resumed run keeps its configuration: leave out {names}, or start a new run")


def say(message: str) -> None:
    """Print a message in one line on standard error."""
    typer.echo(f"regard train: {' '.join(message.split())}", err=True)


def _print_result(result: "TrainingResult", console: "Console") -> None:
    """Print the results and some samples, and draw the pictures."""
    run = result.run
    for line in result.report():
        typer.echo(line)
    typer.echo()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about words that the training data did not contain
        for source, expected in result.samples:
            typer.echo(_show_sample(run, source, expected))
    typer.echo()
    draw(result, missing_pictures(result))
    if result.samples:
        example = result.samples[0][0].replace('"', '\\"')
        sys.stdout.flush()
        command = f'use it: regard generate {run.folder} "{example}"'
        console.print(command, highlight=False, markup=False, soft_wrap=True)


def _show_sample(run: "Run", source: str, expected: str | None) -> str:
    """Return a sample text and what the model makes of it."""
    try:
        if run.task == "masked":
            return format_candidates(run, source, f"   (expected {expected})")
        # The most probable continuation of a text repeats itself, so a language model samples.
        written = run.generate(source, **(SAMPLING if run.task == "language" else {}))
    except ValueError as error:
        return f"  {source}  →  ({error})"
    return f"  {source}  →  {written}" + ("" if expected in (None, written) else f"   (expected {expected})")


def format_candidates(run: "Run", text: str, expected: str = "") -> str:
    """Return a text with <mask>, and in a line for each <mask> the most probable tokens with their probabilities."""
    rows = [", ".join(f"{token} {100 * p:.0f} %" for token, p in row) for row in run.mask_candidates(text)]
    return "\n".join([f"  {text}{expected}", *(f"    → {row}" for row in rows)])


def missing_pictures(result: "TrainingResult") -> list[str]:
    """Return the names of the pictures that a finished run can have and has not."""
    names = ["curves.png", *(["alignment.png"] if result.run.has_alignment and result.samples else [])]
    return [name for name in names if not (result.run.folder / name).exists()]


def draw(result: "TrainingResult", names: list[str]) -> None:
    """Draw pictures of a finished run; what prevents a picture is printed, because the model is saved already."""
    from regard import pictures, training

    run = result.run
    for name in names:
        try:
            with warnings.catch_warnings(record=True) as messages:
                warnings.simplefilter("always", UserWarning)
                if name == "curves.png":
                    rows = training.read_metrics(run.folder / "metrics.jsonl")
                    picture = pictures.training_curves(rows, title=run.folder.name)
                else:
                    # The first sample that is short enough to read, else the shortest.
                    lengths = {source: len(run.tokenizer.encode(source)) for source, _ in result.samples}
                    source = next((s for s in lengths if lengths[s] <= DRAWN), min(lengths, key=lambda s: lengths[s]))
                    picture = draw_alignment(run.alignment(source))
                typer.echo(f"wrote {picture.save(run.folder / name)}")
        except Exception as error:  # also a defect, which must not hide that the training has succeeded
            kind = "" if is_user_error(error) else f"{type(error).__name__}: "
            say(f"{name} was not drawn: {kind}{error}; the model is saved")
        for message in dict.fromkeys(str(warning.message) for warning in messages):
            say(message)


def draw_alignment(alignment: Any) -> Any:
    """Return a picture of the cross-attention: the source words that each word of a translation attended to.

    Of a long text, the first DRAWN tokens are drawn.
    """
    from regard import pictures
    from regard.pictures.fonts import legible, shorten

    texts = [shorten(legible(text), 60) for text in (alignment.source, alignment.translation)]
    title = f"{' → '.join(texts)}\nmean of the {alignment.heads} heads of the last layer"
    rows, columns = alignment.written_tokens[:DRAWN], alignment.source_tokens[:DRAWN]
    if (rows, columns) != (alignment.written_tokens, alignment.source_tokens):
        title += f"; the first {DRAWN} tokens"
    return pictures.cross_attention(alignment.weights[:DRAWN, :DRAWN], rows, columns, title=title)
