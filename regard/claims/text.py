"""Claims as text for the terminal: the list with verdicts, and the details of one claim."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.claims.claim import VERDICTS_IN_CHINESE, Claim, Conclusion
from regard.claims.result import Result, is_timing_unreliable, stored_conclusion
from regard.languages import Language, bilingual

if TYPE_CHECKING:
    from rich.table import Table

COLOURS = {"holds": "green", "holds when": "yellow", "does not hold here": "red"}
UNRELIABLE_TIMING = bilingual(
    "The times were measured on a busy machine; run this claim again when the machine is idle.",
    "计时的时候机器繁忙，请在空闲时重测。",
)
NOT_RUN = bilingual("not run yet", "尚未运行")


def claims_table(
    claims: Sequence[Claim], folder: str | os.PathLike[str] | None = None, language: Language = "en"
) -> "Table":
    """Return a table with the name, the statement and, where a result is stored, the verdict of each claim.

    >>> from regard.claims import claims
    >>> claims_table(claims()).row_count
    14
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    headings = {"en": ("name", "claim", "verdict"), "zh": ("名称", "说法", "结论")}[language]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(headings[0], no_wrap=True, style="bold")
    table.add_column(headings[1], ratio=3)
    table.add_column(headings[2], ratio=2)
    for claim in claims:
        conclusion, result = stored_conclusion(claim, folder)
        if conclusion is None:
            verdict = Text(NOT_RUN[language] if result is None else _unfinished(result, language), style="dim")
        else:
            verdict = Text(verdict_text(conclusion, language), style=COLOURS[conclusion.verdict])
        table.add_row(claim.name, claim.statement[language], verdict)
    return table


def claim_text(claim: Claim, folder: str | os.PathLike[str] | None = None, language: Language = "en") -> str:
    """Return the details of a claim: statement, experiment, rule, and from the stored result figures and verdict.

    >>> from regard.claims import claim_named
    >>> print(claim_text(claim_named("mask")).splitlines()[0])
    The causal mask hides the future (mask)
    """
    conclusion, result = stored_conclusion(claim, folder)
    labels = {
        "en": ("claim", "experiment", "rule", "verdict", "figures", "measured on", "command"),
        "zh": ("说法", "实验", "判据", "结论", "数据", "测量环境", "命令"),
    }[language]
    lines = [f"{claim.title[language]} ({claim.name})", ""]
    for label, text in zip(labels, (claim.statement, claim.experiment, claim.rule), strict=False):
        lines += [f"{label}: {text[language].replace('*', '')}", ""]
    if result is None:
        return "\n".join([*lines, f"{labels[3]}: {NOT_RUN[language]} (regard claims run {claim.name})"])
    if conclusion is None:
        return "\n".join([*lines, f"{labels[3]}: {_unfinished(result, language)} ({result.command})"])
    lines += [f"{labels[3]}: {verdict_text(conclusion, language)}", "", f"{labels[4]}:"]
    lines += [f"  {figure.name[language]}: {figure}" for figure in conclusion.figures]
    lines += [f"  {note[language]}" for note in conclusion.notes]
    if is_timing_unreliable(claim, result):
        lines += ["", UNRELIABLE_TIMING[language]]
    lines += ["", f"{labels[5]}: {machine_text(result)}", f"{labels[6]}: {result.command}"]
    return "\n".join(lines)


def verdict_text(conclusion: Conclusion, language: Language = "en") -> str:
    """Return the verdict and its sentence.

    >>> verdict_text(Conclusion("holds", {"en": "Time is quadratic.", "zh": "时间为平方级。"}))
    'holds: Time is quadratic.'
    """
    if language == "en":
        return f"{conclusion.verdict}: {conclusion.sentence['en']}"
    return f"{VERDICTS_IN_CHINESE[conclusion.verdict]}：{conclusion.sentence['zh']}"


def machine_text(result: Result) -> str:
    """Return the machine, the number of seeds and the duration of a run in one line.

    >>> from regard.claims import SHIPPED, read
    >>> machine_text(read(SHIPPED / "mask.json")).partition("; ")[2]
    '3 seeds, 465 s at size default, load average 20'
    """
    machine = result.machine

    def counted(number: int | str, noun: str) -> str:
        return f"{number} {noun}{'' if number == 1 else 's'}"

    cores = f"{counted(machine['threads'], 'thread')} on {counted(machine['cores'], 'core')}"
    duration = f"{counted(result.seeds, 'seed')}, {result.seconds:,.0f} s at size {result.size}"
    load = "" if result.load is None else f", load average {result.load:.0f}"
    return f"{machine['processor']}, {cores}, torch {machine['torch']}; {duration}{load}"


def _unfinished(result: Result, language: Language) -> str:
    done, total = len(result.parts), result.expected_parts
    return f"unfinished: {done} of {total} parts" if language == "en" else f"未完成：{done}/{total}"
