"""`regard watch`: the attention inside a model."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import argument, flag, option
from regard.files import write_atomic

if TYPE_CHECKING:
    from regard.watching import Call
    from regard.watching.named_models import ModelInput, NamedModel

SAVED_AS = (".html", ".htm", ".png", ".svg", ".pdf")


def watch(
    model: Annotated[str, argument("MODEL", "MODULE:FACTORY that can be imported, a trained run, or minilm.")],
    text: Annotated[str | None, argument("[TEXT]", "Text for the model's tokenizer.")] = None,
    input: Annotated[str | None, option("FILE.npz", "Arrays to pass to the model by name, instead of TEXT.")] = None,
    only: Annotated[
        list[str] | None, option("PATTERN", 'Watch only these modules, such as "encoder.*"; may be repeated.')
    ] = None,
    max_calls: Annotated[int | None, option("N", "Record at most this many calls.", min=1)] = None,
    head: Annotated[str | None, option("CALL:HEAD", "Print this head's weights, such as 3:5, counted from 0.")] = None,
    batch: Annotated[
        int | None, option("N", "Print and save this item of the batch; default: print item 0, save all.", min=0)
    ] = None,
    causal: Annotated[bool, flag("--causal", "Report heads that attend to later tokens.")] = False,
    compare: Annotated[str | None, option("TEXT", "Run the model on a second text too, and show what changes.")] = None,
    save: Annotated[
        list[str] | None,
        option("FILE", "Save a page with every head (.html) or an overview (.png, .svg, .pdf); may be repeated."),
    ] = None,
    relevance: Annotated[
        bool, flag("--relevance", "Print the relevance of each token for the output: gradient × attention.")
    ] = False,
    atlas: Annotated[
        bool, flag("--atlas", "Print what each head does on random tokens: previous token, induction, sink, ….")
    ] = False,
    json: Annotated[str | None, option("FILE", "Write the table as JSON; - for standard output.")] = None,
) -> None:
    """Run a model once and show what each of its attention heads attends to.

    The model runs its own kernels: fused attention, torch's fast paths and Hugging Face models are supported. A
    factory returns a model, or a pair (model, tokenizer); the tokenizer encodes TEXT. MODEL can also be a run of
    `regard train`, or one that comes with regard (phrases, dates, language, repeats), which translates or reads TEXT.

    Examples: regard watch minilm "The cat sat on the mat" --save heads.html;
    regard watch phrases "The cat sat on the mat"; regard watch my_models:build --input batch.npz --causal
    """
    from regard.pictures.weights.recorded_heads import token_names
    from regard.watching.named_models import check_patterns, check_run, run_watched
    from regard.watching.terminal_tables import (
        most_informative_head,
        print_changes,
        print_findings,
        print_head_weights,
        print_relevance,
        print_summary,
    )

    # Everything that can be known to be wrong is reported before the model is loaded, which may take minutes.
    if (text is None) == (input is None):
        got = "neither" if text is None else "both"
        raise ValueError(f"give the model either TEXT or --input FILE.npz, got {got}")
    if compare is not None and text is None:
        raise ValueError("--compare needs a first TEXT, got --input")
    place = None if head is None else _parse_head(head, max_calls)
    for file in save or []:
        _check_file("--save", file, SAVED_AS)
    if json not in (None, "-"):
        _check_file("--json", str(json))
    named_model, vocabulary, (inputs, *others) = _load(model, [t for t in (text, compare) if t is not None], input)
    check_patterns(named_model.model, only or [])

    recording = run_watched(named_model, inputs, only=only, max_calls=max_calls)
    if not recording.calls:
        recording.summary()  # raises an error that explains why nothing was recorded
    call, index = most_informative_head(recording) if place is None else _select_head(recording.calls, *place)
    items = min(call.shape[0] for call in recording.calls)
    if batch is not None and batch >= items:
        raise ValueError(f"--batch: items are numbered from 0 to {items - 1}, got {batch}")
    rows = recording.summary()
    if json == "-":
        for line in recording.remarks():
            typer.echo(line, err=True)
        typer.echo(json_format.dumps(rows, indent=1))
        return
    from rich.console import Console

    console = Console()
    print_summary(recording, console)
    names = token_names(recording.calls, inputs.tokens)[recording.calls.index(call)]
    print_head_weights(call, index, *names, console, batch or 0)
    if relevance:
        print_relevance(*_relevance(named_model, inputs), console)
    if atlas:
        import regard

        console.print(regard.atlas(named_model.model, vocabulary).table())
    findings = check_run(recording, inputs, causal=causal)
    print_findings(findings, console)
    second: dict[str, Any] = {}
    for other_inputs in others:
        other = run_watched(named_model, other_inputs, only=only, max_calls=max_calls)
        print_changes(recording.compare(other), console)
        other_findings = check_run(other, other_inputs, causal=causal)
        second = {"other": other, "other_tokens": other_inputs.tokens, "other_findings": other_findings}
    for file in save or []:
        saved = recording.save(file, inputs.tokens, batch=batch, findings=findings, **second)
        console.print(f"wrote {saved}", highlight=False)
    if json is not None:
        write_atomic(json, json_format.dumps(rows, indent=1) + "\n")
        console.print(f"wrote {json}", highlight=False)
    if not save:
        console.print("To explore every head, add --save heads.html", highlight=False)


def _relevance(model: "NamedModel", inputs: "ModelInput") -> tuple[list[str], list[float], str]:
    """Return the tokens, their relevance, and what it is the relevance for."""
    import torch

    import regard
    from regard.pictures.weights.recorded_heads import token_names

    with torch.enable_grad(), regard.watch(model.model) as seen:
        out: Any = model.model(*inputs.args, **inputs.kwargs)
    scores = getattr(out, "logits", None)
    scores = getattr(out, "last_hidden_state", out) if scores is None else scores
    scores = scores[0] if isinstance(scores, tuple) else scores
    is_vector = getattr(out, "logits", None) is None and hasattr(out, "last_hidden_state")
    target = scores[0].mean(0).norm() if is_vector else scores[0, -1].max() if scores.dim() == 3 else scores[0].max()
    source = any(call.cross for call in seen.calls)
    values = seen.relevance(target, source=source)[0].tolist()
    names = token_names(seen.calls, inputs.tokens)[0][0] or [str(i) for i in range(len(values))]
    purpose = "the length of the mean vector" if is_vector else "the largest score of the last token"
    return list(names), values, purpose


def _load(name: str, texts: list[str], file: str | None) -> "tuple[NamedModel, Any, list[ModelInput]]":
    """Return the model of this name, what the atlas draws tokens from, and inputs from the texts or the file."""
    from regard.watching import named_models

    is_named = ":" in name or name in named_models.DEMO_MODELS
    if file is not None and not is_named:
        raise ValueError(f"the run {name} encodes TEXT with its own tokenizer; --input is only for MODULE:FACTORY")
    for text in texts:
        named_models.check_text(text)
    if is_named:
        content = [named_models.input_from_file(file)] if file is not None else []  # before the model, which is slow
        model = named_models.load_model(name)
        inputs = content + [named_models.input_from_text(model, text) for text in texts]
        return model, model.tokenizer if hasattr(model.tokenizer, "all_special_ids") else None, inputs
    from regard import training

    try:
        run = training.load(name)
    except ValueError as error:
        raise ValueError(f"{error}; MODEL may also be MODULE:FACTORY, or the demo minilm") from error
    model = named_models.NamedModel(name, run.model.eval())
    encoded = [run.inputs(text) for text in texts]
    return model, run.tokenizer, [named_models.ModelInput(one.args, {}, one.tokens) for one in encoded]


def _check_file(option: str, file: str, endings: tuple[str, ...] = ()) -> None:
    """Check that a file can be written: it has one of the endings and its folder exists."""
    path = Path(file)
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{option}: a file is saved as .png, .svg, .pdf or .html, got {path.name!r}")
    if path.is_dir():
        raise ValueError(f"{option} must be a file, got the folder {file!r}")
    if not path.parent.is_dir():
        raise ValueError(f"{option}: there is no folder {str(path.parent)!r}; create it first")


def _parse_head(text: str, max_calls: int | None) -> tuple[int, int]:
    call_text, colon, head_text = text.partition(":")
    if not (colon and call_text.isdecimal() and head_text.isdecimal()):
        raise ValueError(f"--head must be CALL:HEAD, two numbers from 0 such as 3:5, got {text!r}")
    call, head = int(call_text), int(head_text)
    if max_calls is not None and call >= max_calls:
        raise ValueError(f"--head: calls are numbered from 0 to {max_calls - 1} (--max-calls), got {call}")
    return call, head


def _select_head(calls: "list[Call]", call: int, head: int) -> "tuple[Call, int]":
    if call >= len(calls):
        raise ValueError(f"--head: calls are numbered from 0 to {len(calls) - 1}, got {call}")
    if head >= calls[call].shape[1]:
        raise ValueError(f"--head: call {call} has {calls[call].shape[1]} heads, counted from 0, got {head}")
    return calls[call], head
