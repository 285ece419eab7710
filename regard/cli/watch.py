"""`regard watch`: the attention inside a model."""

import json as json_format
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.errors import report_user_errors
from regard.files import write_atomic

if TYPE_CHECKING:
    from regard.watching import Call, Given, Subject


def watch(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="MODULE:FACTORY of what can be imported, a trained run, or minilm."),
    ],
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="A sentence for the model's tokenizer.")] = None,
    input: Annotated[
        str | None, typer.Option(metavar="FILE.npz", help="Arrays to call the model with, by their names.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help='Modules to watch, such as "encoder.*"; may be repeated.'),
    ] = None,
    max_calls: Annotated[int | None, typer.Option(metavar="N", min=1, help="Record this many calls at most.")] = None,
    head: Annotated[
        str | None, typer.Option(metavar="CALL:HEAD", help="The head whose weights to print, such as 3:5, from 0.")
    ] = None,
    causal: Annotated[bool, typer.Option("--causal", help="Complain of weight on later tokens.")] = False,
    save: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help=".html: every head to explore; .png, .svg, .pdf: overview. May be repeated."),
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the table as JSON; - for standard output.")
    ] = None,
) -> None:
    """Run a model once and show what its heads attend to, at the speed of its own kernels.

    The model is watched as it runs: fused attention, torch's fast paths and Hugging Face models included. A
    factory may give a model, or a model and its tokenizer, which then reads the text. A run of `regard train`, or
    one that comes with regard (phrases, dates, language), is watched while it translates or reads the text.

    Examples: regard watch minilm "The cat sat on the mat" --save heads.html;
    regard watch phrases "The cat sat on the mat"; regard watch my_models:build --input batch.npz --causal
    """
    with report_user_errors("watch"):
        from regard.pictures import token_names
        from regard.watching import named_models as subjects
        from regard.watching import print_findings, print_head, print_seen, telling_head

        if (text is None) == (input is None):
            got = "neither" if text is None else "both"
            raise ValueError(f"give the model an input: TEXT or --input FILE.npz, got {got}")
        subject, given = _of_a_run(model, text) if _is_run(model) else _imported(model, text, input)
        seen = subjects.run(subject, given, only=only, max_calls=max_calls)
        rows = seen.summary()
        if json == "-":
            typer.echo(json_format.dumps(rows, indent=1))
            return
        from rich.console import Console

        console = Console()
        print_seen(seen, console)
        call, index = telling_head(seen) if head is None else _head(seen.calls, *_two_numbers(head))
        names = token_names(seen.calls, given.tokens)[seen.calls.index(call)]
        print_head(call, index, *names, console)
        print_findings(seen.check(padding=given.padding, causal=causal), console)
        for file in save or []:
            console.print(f"wrote {seen.save(file, given.tokens)}", highlight=False)
        if json is not None:
            write_atomic(json, json_format.dumps(rows, indent=1) + "\n")
            console.print(f"wrote {json}", highlight=False)
        if not save:
            console.print("Every head to explore: add --save heads.html", highlight=False)


def _is_run(model: str) -> bool:
    from regard.watching import named_models as subjects

    return ":" not in model and model not in subjects.DEMOS


def _imported(model: str, text: str | None, file: str | None) -> "tuple[Subject, Given]":
    from regard.watching import named_models as subjects

    subject = subjects.find(model)
    return subject, subjects.from_file(file) if file is not None else subjects.from_text(subject, text or "")


def _of_a_run(name: str, text: str | None) -> "tuple[Subject, Given]":
    """A trained run, and the input that makes it attend as it does in its work."""
    import torch

    from regard import training
    from regard.watching import Given, Subject

    if text is None:
        raise ValueError(f"the run {name} reads TEXT with its own tokenizer; --input is for MODULE:FACTORY")
    try:
        run = training.load(name)
    except ValueError as error:
        raise ValueError(f"{error}; or MODULE:FACTORY of a model, or the demo minilm") from error
    tokens = run.tokenizer.tokens(text)
    if not tokens:
        raise ValueError('the text must hold at least one word, got none; try "The cat sat on the mat"')
    subject = Subject(name, run.model.eval())
    if run.task != "translate":
        return subject, Given((torch.tensor([run.tokenizer.encode(text)]),), {}, tokens)
    source, target, written, keys = run.pair(text, run.generate(text))
    # A step of the decoder reads the word before and writes the next: its own attention is named by what it reads.
    read = ["<begin>", *written[:-1]]
    return subject, Given((source, target), {}, {"encoder": keys, "*.cross": (written, keys), "decoder": read})


def _head(calls: "list[Call]", call: int, head: int) -> "tuple[Call, int]":
    if call >= len(calls):
        raise ValueError(f"--head: calls count from 0 to {len(calls) - 1}, got {call}")
    if head >= calls[call].shape[1]:
        raise ValueError(f"--head: call {call} has {calls[call].shape[1]} heads, counted from 0, got {head}")
    return calls[call], head


def _two_numbers(text: str) -> tuple[int, int]:
    call, colon, head = text.partition(":")
    if not (colon and call.isdecimal() and head.isdecimal()):
        raise ValueError(f"--head must be CALL:HEAD, two numbers from 0 such as 3:5, got {text!r}")
    return int(call), int(head)
