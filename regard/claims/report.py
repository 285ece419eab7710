"""Report of all claims as a Markdown page (docs/claims.md) with one plot each, made from the result files."""

import os
from collections.abc import Sequence
from pathlib import Path

from regard.claims.claim import Claim, Conclusion, Finding
from regard.claims.overview import Overview, overviews
from regard.claims.result import SHIPPED, Result
from regard.claims.text import ANSWERS, machine_text
from regard.files import write_atomic

HEAD = """\
# Textbook claims, tested · 教科书的说法，用实验检验

Statements that textbooks make about attention, each tested by an experiment. `regard claims report` writes this page
from the files in `regard/claims/results`: the verdict of each claim is computed from the measured rows by the rule that
is printed with it. To run a claim yourself: `regard claims run NAME`, with `--full` for the long version;
`regard claims show NAME --rows` prints the measured rows.

A statement is answered *yes* or *no* only if the whole interval of its effect lies on one side of its threshold, the
smallest effect of interest; otherwise it is *undecided*, with the number of seeds that would decide it. Intervals are
95 % intervals over seeds: Wilson's for shares, Student's on the log scale for ratios, Student's for the rest; where a
claim compares several things, they are wider by Holm's correction. *undecided: not learnt* means that a reference arm
has not reached its stated accuracy, so that the experiment shows nothing; *undecided: not run* that no result of the
present experiment is stored.

教科书里关于注意力的说法，每条都用一个实验检验。本页由 `regard claims report` 根据结果文件生成，
结论按各条列出的判据从数据算出。
只有效应的整个区间都在阈值（最小关注效应）一侧时才判“是”或“否”，否则为“未决”，并给出约需多少个种子。
“未学会”指参照组没有达到规定的准确率，“未运行”指还没有当前实验的结果。
"""
TABLE = (
    "| claim | verdict | effect (interval that decides) | seeds | duration | command |",
    "|---|---|---|---|---|---|",
)


def write_report(
    file: str | os.PathLike[str] = "docs/claims.md",
    folder: str | os.PathLike[str] | None = SHIPPED,
    *,
    selection: Sequence[Claim] | None = None,
) -> list[Path]:
    """Write the page and, in a folder of the same name beside it, a plot of each claim that has a result.

    file        the page to write
    folder      folder with results; those that come with regard by default
    selection   limits the page to these claims

    Returns the paths of the files written.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.claims import claim_named
    >>> with TemporaryDirectory() as folder:
    ...     [path.name for path in write_report(f"{folder}/page.md", selection=[claim_named("mask")])]
    ['page.md', 'mask.svg']
    """
    path = Path(file)
    plots = path.with_suffix("")
    plots.mkdir(parents=True, exist_ok=True)
    lines = overviews(folder, selection)
    images, sections = [], []
    for line in lines:
        if line.conclusion is None or line.result is None:
            sections.append(_section_without_result(line))
            continue
        images.append(line.claim.draw(line.result.rows).save(plots / f"{line.claim.name}.svg"))
        sections.append(_section(line.claim, line.conclusion, line.result, plots.name))
    page = "\n\n".join(["\n".join([HEAD, *TABLE, *map(_table_row, lines)]), *sections]) + "\n"
    return [write_atomic(path, page), *images]


def _table_row(line: Overview) -> str:
    name = line.claim.name
    return (
        f"| [{name}](#{name}) | **{line.verdict['en']}** | {line.effect['en']} | {line.seeds} | {line.duration} "
        f"| `{line.command}` |"
    )


def _section_without_result(line: Overview) -> str:
    done = line.result and f" {len(line.result.parts)} of {line.result.expected_parts} parts are finished."
    verdict = f"**Verdict: {line.verdict['en']}.**{done or ''} `{line.command}`"
    return "\n\n".join([_opening(line.claim), _rule(line.claim), verdict, f"**结论：{line.verdict['zh']}。**"])


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
    findings = "\n".join(map(_finding_row, conclusion.findings))
    figures = "\n".join(f"| {figure.name['en']} | {figure} |" for figure in conclusion.figures)
    words = conclusion.verdict_in_words
    paragraphs = [
        _opening(claim),
        _rule(claim),
        f"**Verdict: {words['en']}.** {conclusion.sentence['en']}",
        f"**结论：{words['zh']}。** {conclusion.sentence['zh']}",
        f"| statement | answer | effect (interval) | threshold | seeds |\n|---|---|---|---|---|\n{findings}",
        f"![{claim.title['en']}]({plots}/{claim.name}.svg)",
        f"| figure | value (95 % interval) |\n|---|---|\n{figures}" if figures else "",
        "\n".join(f"- {note['en']}" for note in conclusion.notes),
        f"<sub>{machine_text(result)}. `{result.command}`; "
        f"[rows](../regard/claims/results/{claim.name}.json): `regard claims show {claim.name} --rows`</sub>",
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _finding_row(one: Finding) -> str:
    effect = "–" if one.effect is None else f"{one.effect}"
    if one.effect is not None and one.confidence > 0.951:
        effect += f", {100 * one.confidence:.4g} %"
    seeds = "" if one.seeds is None else f"about {one.seeds:,}" if one.answer == "undecided" else str(one.seeds)
    return (
        f"| {one.name['en']} | {ANSWERS[one.answer]['en']} | {effect} | {one.threshold_text or '–'} | {seeds or '–'} |"
    )
