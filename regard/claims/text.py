"""Claims in the terminal: the list with verdicts, and one with everything about it."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.claims.claim import VERDICTS_IN_CHINESE, Claim, Conclusion
from regard.claims.result import Result, is_timing_unreliable, stored_conclusion
from regard.languages import Language

if TYPE_CHECKING:
    from rich.table import Table

COLOURS = {"holds": "green", "holds when": "yellow", "does not hold here": "red"}
UNRELIABLE_TIMING = {
    "en": "Times were taken on a busy machine: run this again when it is quiet.",
    "zh": "计时时机器繁忙,应在空闲时重测。",
}
NOT_RUN = {"en": "not run yet", "zh": "尚未运行"}


def claims_table(
    known: Sequence[Claim], folder: str | os.PathLike[str] | None = None, language: Language = "en"
) -> "Table":
    """A row for each claim: its name, what it says, and the verdict if there is a result."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    heads = {"en": ("name", "claim", "verdict"), "zh": ("名称", "说法", "结论")}[language]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(heads[0], no_wrap=True, style="bold")
    table.add_column(heads[1], ratio=3)
    table.add_column(heads[2], ratio=2)
    for one in known:
        conclusion, result = stored_conclusion(one, folder)
        if conclusion is None:
            verdict = Text(NOT_RUN[language] if result is None else _unfinished(result, language), style="dim")
        else:
            verdict = Text(verdict_text(conclusion, language), style=COLOURS[conclusion.verdict])
        table.add_row(one.name, one.statement[language], verdict)
    return table


def claim_text(one: Claim, folder: str | os.PathLike[str] | None = None, language: Language = "en") -> str:
    """All about a claim: what it says, what is done, the rule, the figures and the verdict."""
    conclusion, result = stored_conclusion(one, folder)
    labels = {
        "en": ("claim", "experiment", "rule", "verdict", "figures", "measured on", "command"),
        "zh": ("说法", "实验", "判据", "结论", "数据", "测量环境", "命令"),
    }[language]
    lines = [f"{one.title[language]} ({one.name})", ""]
    for label, text in zip(labels, (one.statement, one.experiment, one.rule), strict=False):
        lines += [f"{label}: {text[language].replace('*', '')}", ""]
    if result is None:
        return "\n".join([*lines, f"{labels[3]}: {NOT_RUN[language]} (regard claims run {one.name})"])
    if conclusion is None:
        return "\n".join([*lines, f"{labels[3]}: {_unfinished(result, language)} ({result.command})"])
    lines += [f"{labels[3]}: {verdict_text(conclusion, language)}", "", f"{labels[4]}:"]
    lines += [f"  {figure.name[language]}: {figure}" for figure in conclusion.figures]
    lines += [f"  {note[language]}" for note in conclusion.notes]
    if is_timing_unreliable(one, result):
        lines += ["", UNRELIABLE_TIMING[language]]
    lines += ["", f"{labels[5]}: {machine_text(result)}", f"{labels[6]}: {result.command}"]
    return "\n".join(lines)


def verdict_text(conclusion: Conclusion, language: Language = "en") -> str:
    """The verdict and its sentence."""
    verdict = conclusion.verdict if language == "en" else VERDICTS_IN_CHINESE[conclusion.verdict]
    return (
        f"{verdict}: {conclusion.sentence[language]}" if language == "en" else f"{verdict}:{conclusion.sentence['zh']}"
    )


def machine_text(result: Result) -> str:
    """What it was measured on, in one line."""
    its = result.machine
    seeds = f"{result.seeds} seed{'s' if result.seeds > 1 else ''}"
    threads = f"{its['threads']} thread{'s' if its['threads'] != 1 else ''} on {its['cores']} core"
    where = f"{its['processor']}, {threads}{'s' if its['cores'] != 1 else ''}"
    busy = "" if result.load is None else f", load average {result.load:.0f}"
    return f"{where}, torch {its['torch']}; {seeds}, {result.seconds:,.0f} s at size {result.size}{busy}"


def _unfinished(result: Result, language: Language) -> str:
    done, of = len(result.parts), result.expected_parts
    return f"unfinished: {done} of {of} parts" if language == "en" else f"未完成:{done}/{of}"
