"""`regard train`: translate, language, masked."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.errors import report_user_errors

if TYPE_CHECKING:
    from rich.console import Console

    from regard.training import TrainingResult


def train(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="translate, language or masked.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="phrases, dates or FILE.tsv; for texts: python, or files (may be repeated)."),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="transformer, lstm or lstm-attention.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Updates of the weights.")] = None,
    minutes: Annotated[float | None, typer.Option(metavar="N", help="Train for so long instead.")] = None,
    out: Annotated[
        str | None, typer.Option(metavar="RUN", help="Folder of the run; runs/TASK-DATA if not given.")
    ] = None,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")] = None,
    batch: Annotated[int | None, typer.Option(metavar="N", help="Examples of one update, of all processes.")] = None,
    accumulate: Annotated[int | None, typer.Option(metavar="N", help="Rounds a batch is computed in.")] = None,
    optimizer: Annotated[str | None, typer.Option(metavar="NAME", help="adamw or muon.")] = None,
    learning_rate: Annotated[float | None, typer.Option(metavar="X", help="The highest, after the warm-up.")] = None,
    warmup: Annotated[int | None, typer.Option(metavar="N", help="Steps in which the rate rises.")] = None,
    weight_decay: Annotated[float | None, typer.Option(metavar="X", help="Of matrices.")] = None,
    clip: Annotated[float | None, typer.Option(metavar="X", help="Largest norm of the gradient.")] = None,
    dropout: Annotated[float | None, typer.Option(metavar="X", help="Share that is dropped in training.")] = None,
    d_model: Annotated[int | None, typer.Option(metavar="N", help="Model width D.")] = None,
    layers: Annotated[int | None, typer.Option(metavar="N", help="Layers of encoder and decoder.")] = None,
    heads: Annotated[int | None, typer.Option(metavar="N", help="Heads of each layer.")] = None,
    context: Annotated[int | None, typer.Option(metavar="N", help="Longest sequence, in tokens.")] = None,
    tokenizer: Annotated[str | None, typer.Option(metavar="KIND", help="characters, words or bpe.")] = None,
    vocabulary: Annotated[int | None, typer.Option(metavar="N", help="Tokens of bpe; 1024 if not given.")] = None,
    evaluate_every: Annotated[int | None, typer.Option(metavar="N", help="Steps between evaluations.")] = None,
    checkpoint_every: Annotated[int | None, typer.Option(metavar="N", help="Steps between checkpoints.")] = None,
    patience: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after so many evaluations without a better one.")
    ] = None,
    precision: Annotated[str | None, typer.Option(metavar="NAME", help="float32, or bfloat16 for mixed.")] = None,
    store: Annotated[str | None, typer.Option(metavar="NAME", help="Store the model as float32 or float16.")] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cpu or cuda; cuda where there is one.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Of weights, order and dropout.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Of the processor.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write metrics for TensorBoard, too.")] = False,
) -> None:
    """Train a model, test it, save it and show what it does.

    `regard train translate` learns English → Chinese from a small grammar in about two minutes and draws what its
    cross-attention aligns. Ctrl-C saves a checkpoint; `--resume RUN` goes on as if nothing had happened. Several
    processes: torchrun --nproc-per-node 2 -m -- regard train …

    Example: regard train translate --data dates
    """
    with report_user_errors("train"):
        if (task is None) == (resume is None):
            raise ValueError("say what to train (translate, language or masked), or which run to --resume RUN")
        from rich.console import Console

        from regard import training

        console = Console(stderr=True, quiet=os.environ.get("RANK", "0") != "0")
        sizes = {"d_model": d_model, "layers": layers, "heads": heads, "context": context, "dropout": dropout}
        settings = {
            "steps": steps, "minutes": minutes, "batch": batch, "accumulate": accumulate, "optimizer": optimizer,
            "learning_rate": learning_rate, "warmup": warmup, "weight_decay": weight_decay, "clip": clip,
            "evaluate_every": evaluate_every,
            "checkpoint_every": checkpoint_every, "patience": patience, "precision": precision, "store": store,
            "seed": seed, "threads": threads,
        }  # fmt: skip
        named = {"data": data, "model": model, "tokenizer": tokenizer, "vocabulary": vocabulary, "out": out}
        if resume is not None:
            if changes := _given(sizes | settings | named):
                options = ", ".join(f"--{name.replace('_', '-')}" for name in changes)
                raise ValueError(f"a resumed run keeps what it began with: leave out {options}, or start a new run")
            folder = training.find(resume)
            plan = training.read_run_config(folder)
        else:
            plan = training.make_run_config(
                str(task), tuple(data or ()), model=model or "transformer", tokenizer=tokenizer,
                vocabulary=vocabulary or 1024, sizes=_given(sizes), settings=_given(settings),
            )  # fmt: skip
            folder = Path(out) if out is not None else training.free_folder(plan)
        try:
            with training.progress(plan.settings, console) as shown:
                way = training.train if resume is None else training.resume
                subject: Any = (plan, folder) if resume is None else (folder,)
                finished = way(*subject, device=device, tensorboard=tensorboard, shown=shown)
        except training.Interrupted:
            console.print(f"stopped; nothing is lost. Go on with: regard train --resume {folder}", highlight=False)
            raise typer.Exit(130) from None
        except KeyboardInterrupt:
            safe = f"go on from the last checkpoint with: regard train --resume {folder}"
            console.print(f"stopped at once; {safe if (folder / 'run.json').exists() else 'nothing had begun yet'}")
            raise typer.Exit(130) from None
        if finished.first:
            _report(finished, console)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _report(finished: "TrainingResult", console: "Console") -> None:
    """What the run reached, what it says, and its pictures."""
    from regard import pictures, training

    run = finished.run
    for line in finished.report():
        typer.echo(line)
    typer.echo()
    # The likeliest translation; but the likeliest text goes round in circles, so a text is drawn.
    drawn: dict[str, Any] = {"temperature": 0.8, "top_k": 40, "seed": 0} if run.task == "language" else {}
    for source, wanted in finished.show:
        said = run.generate(source, **drawn)
        typer.echo(f"  {source}  →  {said}" + ("" if wanted in (None, said) else f"   (expected {wanted})"))
    typer.echo()
    rows = training.read_metrics(run.folder / "metrics.jsonl")
    files = [pictures.training_curves(rows, title=f"{run.folder.name}").save(run.folder / "curves.png")]
    if run.has_alignment:
        source = finished.show[0][0]
        files.append(align(run, source, run.generate(source)).save(run.folder / "alignment.png"))
    for path in files:
        typer.echo(f"wrote {path}")
    example = finished.show[0][0].replace('"', '\\"')
    sys.stdout.flush()
    console.print(f'use it: regard generate {run.folder} "{example}"', highlight=False, markup=False, soft_wrap=True)


def align(run: Any, source: str, target: str) -> Any:
    """The picture of what each word of the translation attended to when it was written."""
    import torch

    from regard import pictures, watch

    read, known, words, keys = run.pair(source, target)
    with watch(run.model) as seen, torch.no_grad():
        run.model(read, known)
    crossed = [call for call in seen.calls if ".cross" in call.name]
    # The mean over the heads of the last layer: one head may look at the verb while another looks at the noun.
    weights = crossed[-1].weights()[0].mean(0)
    title = f"{source} → {target}\nmean of the {crossed[-1].shape[1]} heads of the last layer"
    return pictures.cross_attention(weights, words, keys, title=title)
