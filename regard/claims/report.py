"""Report of all claims as a Markdown page (docs/claims.md) with one plot each, made from the result files."""

import os
from collections.abc import Sequence
from pathlib import Path

from regard.claims.claim import VERDICTS_IN_CHINESE, Claim, Conclusion
from regard.claims.registry import claims
from regard.claims.result import SHIPPED, Result, is_timing_unreliable, stored_conclusion
from regard.claims.text import NOT_RUN, UNRELIABLE_TIMING, machine_text
from regard.files import write_atomic

HEAD = """\
# Textbook claims, tested · 教科书的说法，用实验检验

Statements that textbooks make about attention, each tested by an experiment. `regard claims report` writes this page
from the files in `regard/claims/results`: the verdict of each claim is computed from the measured rows by the rule that
is printed with it. Intervals are 95 % intervals over seeds (Student's t). To run a claim yourself:
`regard claims run NAME`, with `--full` for the long version.

教科书里关于注意力的说法，每条都用一个实验检验。本页由 `regard claims report` 根据结果文件生成，
结论按各条列出的判据从数据算出。
"""


def write_report(
    file: str | os.PathLike[str] = "docs/claims.md",
    folder: str | os.PathLike[str] | None = SHIPPED,
    *,
    selection: Sequence[Claim] | None = None,
) -> list[Path]:
    """Write the page and, in a folder of the same name beside it, a plot of each claim that has a result.

    Returns the paths of the files written. `selection` limits the page to these claims.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.claims import claim_named
    >>> with TemporaryDirectory() as folder:
    ...     [path.name for path in write_report(f"{folder}/page.md", selection=[claim_named("mask")])]
    ['page.md', 'mask.svg']
    """
    path = Path(file)
    plots = path.with_suffix("")
    plots.mkdir(parents=True, exist_ok=True)
    images, summary, sections = [], ["| claim | verdict | |", "|---|---|---|"], []
    for claim in claims() if selection is None else selection:
        conclusion, result = stored_conclusion(claim, folder)
        link = f"[{claim.name}](#{claim.name})"
        if conclusion is None or result is None:
            state = NOT_RUN["en"]
            if result is not None:
                state = f"unfinished, {len(result.parts)} of {result.expected_parts} parts"
            summary.append(f"| {link} | *{NOT_RUN['en']}* | {claim.title['en']} |")
            sections.append(
                f"{_opening(claim)}\n\n{_rule(claim)}\n\n**Verdict: {state}.** `regard claims run {claim.name}`"
            )
            continue
        images.append(claim.draw(result.rows).save(plots / f"{claim.name}.svg"))
        summary.append(f"| {link} | **{conclusion.verdict}** | {conclusion.sentence['en']} |")
        sections.append(_section(claim, conclusion, result, plots.name))
    page = "\n\n".join([HEAD + "\n" + "\n".join(summary), *sections]) + "\n"
    return [write_atomic(path, page), *images]


def _opening(claim: Claim) -> str:
    sources = "; ".join(source["en"] for source in claim.source)
    return f"""\
## {claim.name}

**{claim.title["en"]} · {claim.title["zh"]}** (from: {sources})

> {claim.statement["en"]}
>
> {claim.statement["zh"]}

**Experiment.** {claim.experiment["en"]}"""


def _rule(claim: Claim) -> str:
    return f"**Rule.** {claim.rule['en']}"


def _section(claim: Claim, conclusion: Conclusion, result: Result, plots: str) -> str:
    figures = "\n".join(f"| {figure.name['en']} | {figure} |" for figure in conclusion.figures)
    paragraphs = [
        _opening(claim),
        f"![{claim.title['en']}]({plots}/{claim.name}.svg)",
        f"| figure | value (95 % interval) |\n|---|---|\n{figures}",
        "\n".join(f"- {note['en']}" for note in conclusion.notes),
        _rule(claim),
        f"**Verdict: {conclusion.verdict}.** {conclusion.sentence['en']}",
        f"**结论：{VERDICTS_IN_CHINESE[conclusion.verdict]}。** {conclusion.sentence['zh']}",
        f"*{UNRELIABLE_TIMING['en']}*" if is_timing_unreliable(claim, result) else "",
        f"<sub>{machine_text(result)}. `{result.command}`</sub>",
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)
