"""`regard watch`: the attention inside a model."""

import json as json_format
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import argument, flag, option
from regard.files import write_atomic

if TYPE_CHECKING:
    from regard.watching import Call
    from regard.watching.named_models import ModelInput, NamedModel


def watch(
    model: Annotated[str, argument("MODEL", "MODULE:FACTORY that can be imported, a trained run, or minilm.")],
    text: Annotated[str | None, argument("[TEXT]", "Text for the model's tokenizer.")] = None,
    input: Annotated[str | None, option("FILE.npz", "Arrays to pass to the model by name, instead of TEXT.")] = None,
    only: Annotated[
        list[str] | None, option("PATTERN", 'Watch only these modules, such as "encoder.*"; may be repeated.')
    ] = None,
    max_calls: Annotated[int | None, option("N", "Record at most this many calls.", min=1)] = None,
    head: Annotated[str | None, option("CALL:HEAD", "Print this head's weights, such as 3:5, counted from 0.")] = None,
    causal: Annotated[bool, flag("--causal", "Report heads that attend to later tokens.")] = False,
    save: Annotated[
        list[str] | None,
        option("FILE", "Save a page with every head (.html) or an overview (.png, .svg, .pdf); may be repeated."),
    ] = None,
    json: Annotated[str | None, option("FILE", "Write the table as JSON; - for standard output.")] = None,
) -> None:
    """Run a model once and show what each of its attention heads attends to.

    The model runs its own kernels: fused attention, torch's fast paths and Hugging Face models are supported. A
    factory returns a model, or a pair (model, tokenizer); the tokenizer encodes TEXT. MODEL can also be a run of
    `regard train`, or one that comes with regard (phrases, dates, language), which translates or reads TEXT.

    Examples: regard watch minilm "The cat sat on the mat" --save heads.html;
    regard watch phrases "The cat sat on the mat"; regard watch my_models:build --input batch.npz --causal
    """
    from regard.pictures.weights.recorded_heads import token_names
    from regard.watching.named_models import run_watched
    from regard.watching.terminal_tables import most_informative_head, print_findings, print_head_weights, print_summary

    if (text is None) == (input is None):
        got = "neither" if text is None else "both"
        raise ValueError(f"give the model either TEXT or --input FILE.npz, got {got}")
    named_model, inputs = _load(model, text, input)
    recording = run_watched(named_model, inputs, only=only, max_calls=max_calls)
    rows = recording.summary()
    if json == "-":
        typer.echo(json_format.dumps(rows, indent=1))
        return
    from rich.console import Console

    console = Console()
    print_summary(recording, console)
    call, index = most_informative_head(recording) if head is None else _parse_head(head, recording.calls)
    names = token_names(recording.calls, inputs.tokens)[recording.calls.index(call)]
    print_head_weights(call, index, *names, console)
    print_findings(recording.check(padding=inputs.padding, causal=causal), console)
    for file in save or []:
        console.print(f"wrote {recording.save(file, inputs.tokens)}", highlight=False)
    if json is not None:
        write_atomic(json, json_format.dumps(rows, indent=1) + "\n")
        console.print(f"wrote {json}", highlight=False)
    if not save:
        console.print("To explore every head, add --save heads.html", highlight=False)


def _load(name: str, text: str | None, file: str | None) -> "tuple[NamedModel, ModelInput]":
    """Return the model of this name, and its input from the text or the file."""
    from regard.watching import named_models

    if ":" in name or name in named_models.DEMO_MODELS:
        model = named_models.load_model(name)
        if file is not None:
            return model, named_models.input_from_file(file)
        return model, named_models.input_from_text(model, text or "")
    if text is None:
        raise ValueError(f"the run {name} encodes TEXT with its own tokenizer; --input is only for MODULE:FACTORY")
    from regard import training

    try:
        run = training.load(name)
    except ValueError as error:
        raise ValueError(f"{error}; MODEL may also be MODULE:FACTORY, or the demo minilm") from error
    inputs = run.inputs(text)
    return named_models.NamedModel(name, run.model.eval()), named_models.ModelInput(inputs.args, {}, inputs.tokens)


def _parse_head(text: str, calls: "list[Call]") -> "tuple[Call, int]":
    call_text, colon, head_text = text.partition(":")
    if not (colon and call_text.isdecimal() and head_text.isdecimal()):
        raise ValueError(f"--head must be CALL:HEAD, two numbers from 0 such as 3:5, got {text!r}")
    call, head = int(call_text), int(head_text)
    if call >= len(calls):
        raise ValueError(f"--head: calls are numbered from 0 to {len(calls) - 1}, got {call}")
    if head >= calls[call].shape[1]:
        raise ValueError(f"--head: call {call} has {calls[call].shape[1]} heads, counted from 0, got {head}")
    return calls[call], head
