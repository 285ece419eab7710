"""`regard train`: train a text model to translate, to continue text or to fill in masked words."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import argument, flag, option

if TYPE_CHECKING:
    from rich.console import Console

    from regard.training.launch import TrainingResult


def train(
    task: Annotated[str | None, argument("TASK", "What to train: translate, language or masked.")] = None,
    data: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Data: phrases, dates or FILE.tsv for translate; python or text files (repeat the option) otherwise.",
        ),
    ] = None,
    model: Annotated[str | None, option("NAME", "Kind of model: transformer, lstm or lstm-attention.")] = None,
    steps: Annotated[int | None, option("N", "Stop after this many updates.")] = None,
    minutes: Annotated[float | None, option("N", "Stop after this many minutes.")] = None,
    out: Annotated[str | None, option("RUN", "Folder of the new run; runs/TASK-DATA by default.")] = None,
    resume: Annotated[str | None, option("RUN", "Continue this stopped run from its last checkpoint.")] = None,
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
) -> None:
    """Train a text model, test it, save it and show what it does.

    `regard train translate` learns English → Chinese from a small grammar in about two minutes and draws the alignment
    of its cross-attention. Ctrl-C saves a checkpoint; `--resume RUN` continues from it. To train with several
    processes: torchrun --nproc-per-node 2 -m -- regard train …

    Example: regard train translate --data dates
    """
    if (task is None) == (resume is None):
        raise ValueError("give either a task (translate, language or masked) or --resume RUN")
    from rich.console import Console

    from regard import training
    from regard.training.interrupts import Interrupted
    from regard.training.launch import free_folder
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
            result = training.train(config, folder, **options) if resume is None else training.resume(folder, **options)
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


def _print_result(result: "TrainingResult", console: "Console") -> None:
    """Print the results and some samples, and save the pictures."""
    from regard import pictures, training

    run = result.run
    for line in result.report():
        typer.echo(line)
    typer.echo()
    # The most probable continuation of a text repeats itself, so a language model samples.
    sampling: dict[str, Any] = {"temperature": 0.8, "top_k": 40, "seed": 0} if run.task == "language" else {}
    for source, expected in result.samples:
        text = run.generate(source, **sampling)
        typer.echo(f"  {source}  →  {text}" + ("" if expected in (None, text) else f"   (expected {expected})"))
    typer.echo()
    rows = training.read_metrics(run.folder / "metrics.jsonl")
    files = [pictures.training_curves(rows, title=run.folder.name).save(run.folder / "curves.png")]
    if run.has_alignment:
        files.append(draw_alignment(run.alignment(result.samples[0][0])).save(run.folder / "alignment.png"))
    for path in files:
        typer.echo(f"wrote {path}")
    example = result.samples[0][0].replace('"', '\\"')
    sys.stdout.flush()
    console.print(f'use it: regard generate {run.folder} "{example}"', highlight=False, markup=False, soft_wrap=True)


def draw_alignment(alignment: Any) -> Any:
    """Return a picture of the cross-attention: the source words that each word of a translation attended to."""
    from regard import pictures

    title = f"{alignment.source} → {alignment.translation}\nmean of the {alignment.heads} heads of the last layer"
    return pictures.cross_attention(alignment.weights, alignment.written_tokens, alignment.source_tokens, title=title)
