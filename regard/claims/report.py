"""docs/claims.md: claim → experiment → figure → verdict, made from the result files and nothing else."""

import os
from collections.abc import Sequence
from pathlib import Path

from regard.claims.claim import VERDICTS_IN_CHINESE, Claim
from regard.claims.registry import claims
from regard.claims.result import SHIPPED, Result, is_timing_unreliable, stored_conclusion
from regard.claims.text import NOT_RUN, UNRELIABLE_TIMING, machine_text
from regard.files import write_atomic

HEAD = """\
# Claims

What the documents say of attention, each as an experiment with a verdict. This page is written by
`regard claims report` from the files in `regard/claims/results`; the verdict of a claim is computed from its rows by
the rule that stands beside it, and nothing here is typed in. Intervals are 95 %, over seeds (Student's t) unless
said otherwise. Run one yourself: `regard claims run NAME`, with `--full` for the long version.

本页由 `regard claims report` 根据结果文件生成;每条结论都由所列判据从数据算出。
"""


def write_report(
    file: str | os.PathLike[str] = "docs/claims.md",
    folder: str | os.PathLike[str] | None = SHIPPED,
    *,
    known: Sequence[Claim] | None = None,
) -> list[Path]:
    """Write the page and, in a folder of the same name beside it, a plot for each claim that has a result."""
    path = Path(file)
    plots = path.with_suffix("")
    plots.mkdir(parents=True, exist_ok=True)
    written, summary, sections = [], ["| claim | verdict | |", "|---|---|---|"], []
    for one in claims() if known is None else known:
        conclusion, result = stored_conclusion(one, folder)
        link = f"[{one.name}](#{one.name})"
        if conclusion is None or result is None:
            summary.append(f"| {link} | *{NOT_RUN['en']}* | {one.title['en']} |")
            sections.append(_not_run(one, result))
            continue
        written.append(one.draw(result.rows).save(plots / f"{one.name}.svg"))
        summary.append(f"| {link} | **{conclusion.verdict}** | {conclusion.sentence['en']} |")
        figures = [f"| {figure.name['en']} | {figure} |" for figure in conclusion.figures]
        sections.append(
            "\n".join(
                [
                    *_opening(one),
                    f"![{one.title['en']}]({plots.name}/{one.name}.svg)",
                    "",
                    "| figure | value (95 % interval) |",
                    "|---|---|",
                    *figures,
                    "",
                    *(f"- {note['en']}" for note in conclusion.notes),
                    *([""] if conclusion.notes else []),
                    f"**Rule.** {one.rule['en']}",
                    "",
                    f"**Verdict: {conclusion.verdict}.** {conclusion.sentence['en']}",
                    "",
                    f"**结论:{VERDICTS_IN_CHINESE[conclusion.verdict]}。** {conclusion.sentence['zh']}",
                    "",
                    *([f"*{UNRELIABLE_TIMING['en']}*", ""] if is_timing_unreliable(one, result) else []),
                    f"<sub>{machine_text(result)}. `{result.command}`</sub>",
                ]
            )
        )
    page = "\n\n".join([HEAD + "\n" + "\n".join(summary), *sections]) + "\n"
    return [write_atomic(path, page), *written]


def _opening(one: Claim) -> list[str]:
    return [
        f"## {one.name}",
        "",
        f"**{one.title['en']} · {one.title['zh']}** (from: {'; '.join(each['en'] for each in one.source)})",
        "",
        f"> {one.statement['en']}",
        ">",
        f"> {one.statement['zh']}",
        "",
        f"**Experiment.** {one.experiment['en']}",
        "",
    ]


def _not_run(one: Claim, result: Result | None) -> str:
    stands = NOT_RUN["en"] if result is None else f"unfinished, {len(result.parts)} of {result.expected_parts} parts"
    return "\n".join(
        [*_opening(one), f"**Rule.** {one.rule['en']}", "", f"**Verdict: {stands}.** `regard claims run {one.name}`"]
    )
