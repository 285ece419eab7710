"""`regard learn drill` and `diagram`: calculate attention by hand, and put its steps in order."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.learn.prompts import Lang, Terminal, load_progress
from regard.cli.options import argument, flag, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.learn import Drill, Progress
    from regard.learn.drills.drill import StepResult


def drill(
    level: Annotated[int, option("N", "Difficulty, from 1 (easy) to 5.", min=1, max=5)] = 1,
    kind: Annotated[
        str | None, option("NAME", "Kind of drill, e.g. softmax, causal, two-heads, online; sets the level.")
    ] = None,
    seed: Annotated[int | None, option("N", "Seed of the numbers; default: a drill not done yet.", min=0)] = None,
    answer: Annotated[
        list[str] | None, option("TEXT", "Answer of a step, instead of asking; repeat it for each step, in order.")
    ] = None,
    solution: Annotated[bool, flag("--solution", "Print the correct answers instead of asking.")] = False,
    lang: Lang = None,
) -> None:
    """Calculate attention by hand, step by step, with small numbers.

    A mistake counts once: later steps are graded with your own results. The exit code is 1 if a step is wrong.

    Example: regard learn drill --level 3
    """
    from regard.learn.drills.drill import all_passed
    from regard.learn.drills.matrices import format_answer

    terminal, progress = Terminal(lang), load_progress()
    task = _choose_drill(progress, level, kind, seed)
    terminal.say("drill", level=task.level, title=task.title[terminal.language], seed=task.seed)
    terminal.print(f"\n{task.statement[terminal.language]}\n")
    if solution:
        for step in task.steps:
            _print_step(terminal, step.name, step.instruction[terminal.language], "")
            terminal.print(f"    {format_answer(task.answers()[step.name])}")
        return
    answers = list(answer) if answer else _ask_steps(terminal, task)
    if not any(answers):
        return
    results = task.check(answers)
    _print_results(terminal, results)
    progress.record_drill(task, results, datetime.now(UTC))
    passed = all_passed(results)
    terminal.say("drill-passed" if passed else "drill-failed", level=task.level, kind=task.kind, seed=task.seed)
    if not passed:
        raise typer.Exit(1)


def diagram(
    name: Annotated[str, argument("NAME", "Diagram: self-attention or multi-head.")] = "self-attention",
    order: Annotated[str | None, option("NAME,NAME,...", "Pieces in order, instead of asking for them.")] = None,
    lang: Lang = None,
) -> None:
    """Put the steps of attention into an order in which they can be computed.

    Every order that computes attention is accepted. Otherwise the first error is named, and the exit code is 1.
    """
    from regard.learn import DIAGRAMS, check_order

    if name not in DIAGRAMS:
        raise ValueError(f"the diagrams are {', '.join(DIAGRAMS)}, got {name!r}")
    terminal, progress = Terminal(lang), load_progress()
    pieces_in_order = [part.strip() for part in order.split(",")] if order else _ask_order(terminal, name)
    if not pieces_in_order:
        return
    result = check_order(DIAGRAMS[name], pieces_in_order)
    terminal.print(result.message[terminal.language])
    progress.record_diagram(name, result.correct, datetime.now(UTC))
    if not result.correct:
        raise typer.Exit(1)


def _choose_drill(progress: "Progress", level: int, kind: str | None, seed: int | None) -> "Drill":
    from regard.learn import drill as make

    if seed is not None:
        return make(level, seed, kind)
    seed = 0
    while (task := make(level, seed, kind)).name in progress.drills:
        seed += 1
    return task


def _ask_steps(terminal: Terminal, task: "Drill") -> list[str]:
    terminal.say("how")
    answers: list[str] = []
    with terminal.until_stopped():
        for number, step in enumerate(task.steps, 1):
            terminal.print(f"{number}. {step.name}: {step.instruction[terminal.language]}")
            answers.append(terminal.ask("   "))
    return answers


def _print_results(terminal: Terminal, results: "Sequence[StepResult]") -> None:
    from regard.learn.drills.matrices import format_answer

    for result in results:
        message = "" if result.passed or result.outcome == "blank" else result.message[terminal.language]
        _print_step(terminal, result.step, terminal.text(result.outcome), message)
        if result.outcome in ("wrong", "unread", "blank"):
            own_answer, true_answer = format_answer(result.expected), format_answer(result.true)
            if own_answer != true_answer:
                terminal.print("    " + terminal.text("own-answer", value=own_answer))
            terminal.print("    " + terminal.text("true-answer", value=true_answer))


def _print_step(terminal: Terminal, name: str, first: str, second: str) -> None:
    terminal.print(f"  {name}: {first}" + (f" · {second}" if second else ""))


def _ask_order(terminal: Terminal, name: str) -> list[str]:
    from random import Random

    from regard.learn import DIAGRAMS

    pieces = sorted(DIAGRAMS[name].pieces)
    Random(name).shuffle(pieces)
    terminal.say("pieces")
    for number, piece in enumerate(pieces, 1):
        terminal.print(f"  {number:2} {DIAGRAMS[name].pieces[piece].label[terminal.language]}")
    pieces_in_order: list[str] = []
    with terminal.until_stopped():
        while not pieces_in_order:
            numbers = terminal.ask(terminal.text("order")).replace(",", " ").replace("，", " ").split()
            if sorted(numbers) == sorted(str(number) for number in range(1, len(pieces) + 1)):
                pieces_in_order = [pieces[int(number) - 1] for number in numbers]
            else:
                terminal.say("numbers", n=len(pieces), example="3 1 2 …")
    return pieces_in_order
