"""`regard learn drill`, `diagram` and `checklist`: attention by hand, its flow put in order, and how far one is."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.errors import report_user_errors
from regard.cli.learn.prompts import Lang, Speaker, load_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.learn import Drill, Progress
    from regard.learn.drills.drill import StepResult

SAID = {
    "drill": ("Level {level} · {title} · seed {seed}", "{level} 级 · {title} · 种子 {seed}"),
    "how": (
        "Write 2/3, 0.67, ln 2 or -inf; commas between numbers, semicolons between rows. Enter leaves a step out.",
        "可以写 2/3、0.67、ln 2 或 -inf；数之间用逗号，行之间用分号。直接回车跳过这一步。",
    ),
    "right": ("right", "对"),
    "carried": ("right for your numbers", "按你的数算对了"),
    "wrong": ("wrong", "错"),
    "unread": ("not read", "没读懂"),
    "blank": ("blank", "未答"),
    "expected": ("It follows from your numbers: {value}", "由你的数应得：{value}"),
    "true": ("The right answer: {value}", "正确答案：{value}"),
    "passed": (
        "All right. Another one: regard learn drill --level {level}",
        "全对。再来一题：regard learn drill --level {level}",
    ),
    "failed": (
        "The same again: regard learn drill --kind {kind} --seed {seed}",
        "再做一遍：regard learn drill --kind {kind} --seed {seed}",
    ),
    "pieces": ("Put these in the order in which attention computes them:", "按注意力的计算顺序排列："),
    "order": ("Their numbers in order (q stops): ", "按顺序写编号（q 退出）："),
    "numbers": (
        "Write every number from 1 to {n} once, such as {example}.",
        "从 1 到 {n} 每个编号写一次，例如 {example}。",
    ),
    "mastery": ("What counts as mastery", "掌握清单"),
}


def drill(
    level: Annotated[int, typer.Option(metavar="N", min=1, max=5, help="From 1, easy, to 5.")] = 1,
    kind: Annotated[str | None, typer.Option(metavar="NAME", help="softmax, causal, two-heads, online, ...")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Which numbers; new ones if none.")] = None,
    answer: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="A step's answer, in order, instead of being asked.")
    ] = None,
    solution: Annotated[bool, typer.Option("--solution", help="Print the answers and ask nothing.")] = False,
    lang: Lang = None,
) -> None:
    """Compute attention by hand, step by step, with kind numbers.

    A mistake counts once: the steps after it are judged with your own numbers. Exit code 1 if a step is wrong.

    Example: regard learn drill --level 3
    """
    with report_user_errors("learn drill"):
        from regard.learn.drills.drill import all_passed
        from regard.learn.drills.matrices import format_answer

        speaker, state = Speaker(SAID, lang), load_state()
        task = _chosen(state, level, kind, seed)
        speaker.say("drill", level=task.level, title=task.title[speaker.language], seed=task.seed)
        speaker.print(f"\n{task.statement[speaker.language]}\n")
        if solution:
            for step in task.steps:
                _print_step(speaker, step.name, step.instruction[speaker.language], "")
                speaker.print(f"    {format_answer(task.answers()[step.name])}")
            return
        typed = list(answer) if answer else _asked(speaker, task)
        if not any(typed):
            return
        results = task.check(typed)
        _print_results(speaker, results)
        state.record_drill(task, results, datetime.now(UTC))
        done = all_passed(results)
        speaker.say("passed" if done else "failed", level=task.level, kind=task.kind, seed=task.seed)
        if not done:
            raise typer.Exit(1)


def diagram(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="self-attention or multi-head.")] = "self-attention",
    order: Annotated[
        str | None, typer.Option(metavar="NAME,NAME,...", help="The order, instead of being asked.")
    ] = None,
    lang: Lang = None,
) -> None:
    """Put the pieces of attention in the order in which they are computed.

    Every order that computes attention is right; otherwise the first thing wrong is named, with exit code 1.
    """
    with report_user_errors("learn diagram"):
        from regard.learn import DIAGRAMS, check_order

        if name not in DIAGRAMS:
            raise ValueError(f"the diagrams are {', '.join(DIAGRAMS)}, got {name!r}")
        speaker, state = Speaker(SAID, lang), load_state()
        chosen = [part.strip() for part in order.split(",")] if order else _ordered(speaker, name)
        if not chosen:
            return
        result = check_order(DIAGRAMS[name], chosen)
        speaker.print(result.message[speaker.language])
        state.record_diagram(name, result.correct, datetime.now(UTC))
        if not result.correct:
            raise typer.Exit(1)


def checklist(lang: Lang = None) -> None:
    """Show what counts as having mastered attention, and how far you are."""
    with report_user_errors("learn checklist"):
        from regard.learn import checklist as items

        speaker = Speaker(SAID, lang)
        speaker.say("mastery")
        for item in items(load_state()):
            mark = "[x]" if item.done else "[ ]"
            speaker.print(f" {mark} {item.title[speaker.language]} ({min(item.have, item.need)}/{item.need})")


def _chosen(state: "Progress", level: int, kind: str | None, seed: int | None) -> "Drill":
    from regard.learn import drill as make

    if seed is not None:
        return make(level, seed, kind)
    seed = 0
    while (task := make(level, seed, kind)).name in state.drills:
        seed += 1
    return task


def _asked(speaker: Speaker, task: "Drill") -> list[str]:
    speaker.say("how")
    typed: list[str] = []
    with speaker.until_stopped():
        for number, step in enumerate(task.steps, 1):
            speaker.print(f"{number}. {step.name}: {step.instruction[speaker.language]}")
            typed.append(speaker.ask("   "))
    return typed


def _print_results(speaker: Speaker, results: "Sequence[StepResult]") -> None:
    from regard.learn.drills.matrices import format_answer

    for result in results:
        says = "" if result.passed or result.outcome == "blank" else result.message[speaker.language]
        _print_step(speaker, result.step, speaker.text(result.outcome), says)
        if result.outcome in ("wrong", "unread", "blank"):
            follows = format_answer(result.expected)
            right = format_answer(result.true)
            if follows != right:
                speaker.print("    " + speaker.text("expected", value=follows))
            speaker.print("    " + speaker.text("true", value=right))


def _print_step(speaker: Speaker, name: str, first: str, second: str) -> None:
    speaker.print(f"  {name}: {first}" + (f" · {second}" if second else ""))


def _ordered(speaker: Speaker, name: str) -> list[str]:
    from random import Random

    from regard.learn import DIAGRAMS

    pieces = sorted(DIAGRAMS[name].pieces)
    Random(name).shuffle(pieces)
    speaker.say("pieces")
    for number, piece in enumerate(pieces, 1):
        speaker.print(f"  {number:2} {DIAGRAMS[name].pieces[piece].label[speaker.language]}")
    chosen: list[str] = []
    with speaker.until_stopped():
        while not chosen:
            words = speaker.ask(speaker.text("order")).replace(",", " ").replace("，", " ").split()
            if sorted(words) == sorted(str(number) for number in range(1, len(pieces) + 1)):
                chosen = [pieces[int(word) - 1] for word in words]
            else:
                speaker.say("numbers", n=len(pieces), example="3 1 2 …")
    return chosen
