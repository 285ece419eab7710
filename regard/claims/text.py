"""Claims as text for the terminal: the list with verdicts, and the details of one claim."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.claims.claim import Answer, Claim, Conclusion, Finding
from regard.claims.overview import NOT_RUN
from regard.claims.result import Result, stored_conclusion
from regard.languages import Bilingual, Language, bilingual

if TYPE_CHECKING:
    from rich.table import Table

COLOURS = {"holds": "green", "holds when": "yellow", "does not hold here": "red", "undecided": "magenta"}
ANSWERS: dict[Answer, Bilingual] = {
    "yes": bilingual("yes", "是"),
    "no": bilingual("no", "否"),
    "undecided": bilingual("undecided", "未决"),
}


def claims_table(
    claims: Sequence[Claim], folder: str | os.PathLike[str] | None = None, language: Language = "en"
) -> "Table":
    """Return a table with the name, the statement and, where a result is stored, the verdict of each claim.

    claims      the claims to list
    folder      folder with results, as for `find`
    language    "en" or "zh"

    >>> from regard.claims import claims
    >>> claims_table(claims()).row_count
    19
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    headings = {
        "en": ("name", "claim", "verdict", "effect (interval)", "seeds"),
        "zh": ("名称", "说法", "结论", "效应（区间）", "种子"),
    }[language]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(headings[0], no_wrap=True, style="bold")
    table.add_column(headings[1], ratio=3)
    table.add_column(headings[2], ratio=1)
    table.add_column(headings[3], ratio=1)
    table.add_column(headings[4], justify="right")
    for claim in claims:
        conclusion, result = stored_conclusion(claim, folder)
        if conclusion is None or result is None:
            verdict = Text(NOT_RUN[language] if result is None else _unfinished(result, language), style="dim")
            table.add_row(claim.name, claim.statement[language], verdict, "–", "–")
            continue
        verdict = Text(conclusion.verdict_in_words[language], style=COLOURS[conclusion.verdict])
        effect = "–" if conclusion.effect is None else str(conclusion.effect)
        table.add_row(claim.name, claim.statement[language], verdict, effect, str(result.seeds))
    return table


def claim_text(claim: Claim, folder: str | os.PathLike[str] | None = None, language: Language = "en") -> str:
    """Return the details of a claim: statement, experiment, rule, and from the stored result figures and verdict.

    claim       the claim
    folder      folder with results, as for `find`
    language    "en" or "zh"

    >>> from regard.claims import claim_named
    >>> print(claim_text(claim_named("mask")).splitlines()[0])
    The causal mask hides the future (mask)
    """
    conclusion, result = stored_conclusion(claim, folder)
    labels = {
        "en": ("claim", "experiment", "rule", "verdict", "statements", "figures", "measured on", "command"),
        "zh": ("说法", "实验", "判据", "结论", "陈述", "数据", "测量环境", "命令"),
    }[language]
    lines = [f"{claim.title[language]} ({claim.name})", ""]
    for label, text in zip(labels, (claim.statement, claim.experiment, claim.rule), strict=False):
        lines += [f"{label}: {text[language].replace('*', '')}", ""]
    if result is None:
        return "\n".join([*lines, f"{labels[3]}: {NOT_RUN[language]} (regard claims run {claim.name})"])
    if conclusion is None:
        return "\n".join([*lines, f"{labels[3]}: {_unfinished(result, language)} ({result.command})"])
    lines += [f"{labels[3]}: {verdict_text(conclusion, language)}", "", f"{labels[4]}:"]
    lines += [f"  {_finding_text(one, language)}" for one in conclusion.findings]
    if conclusion.figures:
        lines += ["", f"{labels[5]}:", *(f"  {figure.name[language]}: {figure}" for figure in conclusion.figures)]
    lines += [f"  {note[language]}" for note in conclusion.notes]
    lines += ["", f"{labels[6]}: {machine_text(result)}", f"{labels[7]}: {result.command}"]
    return "\n".join(lines)


def _finding_text(one: Finding, language: Language) -> str:
    """Return a statement, its answer, its effect with interval and threshold in one line."""
    text = f"{one.name[language]}: {ANSWERS[one.answer][language]}"
    if one.effect is None:
        return text
    seeds = ""
    if one.answer == "undecided" and one.seeds is not None:
        seeds = {"en": f"; about {one.seeds:,} seeds would decide it", "zh": f"；约需 {one.seeds:,} 个种子"}[language]
    return f"{text}; {one.effect} {one.threshold_text}{seeds}"


def verdict_text(conclusion: Conclusion, language: Language = "en") -> str:
    """Return the verdict and its sentence.

    conclusion  what the rule of a claim returns
    language    "en" or "zh"

    >>> verdict_text(Conclusion("holds", {"en": "Time is quadratic.", "zh": "时间为平方级。"}))
    'holds: Time is quadratic.'
    """
    return f"{conclusion.verdict_in_words[language]}{': ' if language == 'en' else '：'}{conclusion.sentence[language]}"


def machine_text(result: Result) -> str:
    """Return the machine, the number of seeds and the duration of a run in one line.

    result      a result, as `find` returns it

    >>> from regard.claims import SHIPPED, read
    >>> machine_text(read(SHIPPED / "mask.json")).partition("; ")[2].split(", ")[0]
    '10 seeds'
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
