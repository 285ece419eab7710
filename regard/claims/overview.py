"""One line about each claim: verdict, effect with interval, seeds, duration and command; as a table or a PDF page."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.claims.claim import REASONS_IN_CHINESE, VERDICTS_IN_CHINESE, Claim, Conclusion
from regard.claims.registry import claims
from regard.claims.result import SHIPPED, Result, stored_conclusion
from regard.durations import format_duration
from regard.languages import Bilingual, bilingual
from regard.pictures import THEMES, Picture

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

NOT_RUN = bilingual("undecided: not run", f"{VERDICTS_IN_CHINESE['undecided']}：{REASONS_IN_CHINESE['not run']}")


@dataclass(frozen=True)
class Overview:
    """The line of one claim; `effect` is its first measured effect, or the number of true statements.

    claim       the claim
    conclusion  its verdict; None without a complete result
    result      the stored result, if there is one

    >>> from regard.claims import claim_named
    >>> Overview(claim_named("mask"), None, None).effect["en"]
    '–'
    """

    claim: Claim
    conclusion: Conclusion | None
    result: Result | None

    @property
    def verdict(self) -> Bilingual:
        """Return the verdict; a claim without a complete result is "undecided: not run"."""
        return NOT_RUN if self.conclusion is None else self.conclusion.verdict_in_words

    @property
    def effect(self) -> Bilingual:
        """Return the effect with its name and the interval that decides, "–" without a result."""
        if self.conclusion is None:
            return bilingual("–", "–")
        effect, answers = self.conclusion.effect, [one.answer for one in self.conclusion.findings]
        if effect is None:
            true, count = answers.count("yes"), len(answers)
            return bilingual(f"{true} of {count} statements are true", f"{count} 条陈述中 {true} 条为真")
        return bilingual(f"{effect.name['en']}: {effect}", f"{effect.name['zh']}：{effect}")

    @property
    def seeds(self) -> str:
        """Return the number of seeds measured."""
        return "–" if self.conclusion is None or self.result is None else str(self.result.seeds)

    @property
    def duration(self) -> str:
        """Return the time that all parts took."""
        return "–" if self.conclusion is None or self.result is None else format_duration(self.result.seconds)

    @property
    def command(self) -> str:
        """Return the command that measures the claim, or continues an unfinished run."""
        return f"regard claims run {self.claim.name}" if self.result is None else self.result.command


def overviews(
    folder: str | os.PathLike[str] | None = SHIPPED, selection: Sequence[Claim] | None = None
) -> list[Overview]:
    """Return the line of every claim.

    folder      folder with results, as for `find`
    selection   only these claims

    >>> from regard.claims import claim_named
    >>> [line] = overviews(selection=[claim_named("mask")])
    >>> line.seeds, line.command
    ('10', 'regard claims run mask')
    """
    return [Overview(claim, *stored_conclusion(claim, folder)) for claim in (selection or claims())]


def save_summary(file: str | os.PathLike[str], folder: str | os.PathLike[str] | None = SHIPPED) -> Path:
    """Write the lines of all claims as one page, A4 landscape, and return its path.

    file        the page: .pdf, .png, .svg or .html
    folder      folder with results, as for `find`

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save_summary(f"{folder}/claims.svg").name
    'claims.svg'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    theme = THEMES["light"]
    colours = {"holds": "#00734f", "holds when": "#0060a0", "does not hold here": "#a93500"}
    lines = overviews(folder)
    figure = Figure(figsize=(11.69, 8.27))
    FigureCanvasAgg(figure)
    columns = {0.04: "claim", 0.29: "verdict", 0.435: "effect (interval that decides)", 0.895: "seeds", 0.93: "time"}
    figure.text(0.04, 0.94, "Textbook claims about attention, tested", size=16, weight="bold", color=theme.ink)
    subtitle = (
        "Verdicts by stated rules, from intervals over seeds. regard claims show NAME prints the rule and all figures."
    )
    figure.text(0.04, 0.912, subtitle, size=8.5, color=theme.faint)
    top, height = 0.875, 0.83 / (len(lines) + 0.5)
    for x, heading in columns.items():
        figure.text(x, top, heading, size=8.5, weight="bold", color=theme.faint)
    for n, line in enumerate(lines):
        y = top - (n + 1) * height
        verdict = "undecided" if line.conclusion is None else line.conclusion.verdict
        row = (line.claim.title["en"], line.verdict["en"], _shorten(line.effect["en"], 88), line.seeds, line.duration)
        for x, cell in zip(columns, row, strict=True):
            colour = colours.get(verdict, theme.faint) if cell == line.verdict["en"] else theme.ink
            weight = "bold" if x == 0.04 or cell == line.verdict["en"] else "normal"
            figure.text(x, y, cell, size=8, color=colour, weight=weight)
        figure.text(0.04, y - 0.28 * height, line.command, size=6, color=theme.faint, family="monospace")
        figure.add_artist(_rule(y + 0.56 * height, theme.line))
    return Picture(figure, "Textbook claims about attention, tested").save(file)


def _rule(y: float, colour: str) -> "Line2D":
    from matplotlib.lines import Line2D

    return Line2D([0.04, 0.96], [y, y], color=colour, linewidth=0.6)


def _shorten(text: str, length: int) -> str:
    """Return the text, its middle cut out if it is longer: the numbers stand at its end."""
    if len(text) <= length:
        return text
    name, colon, numbers = text.rpartition(": ")
    return f"{name[: length - len(numbers) - 3].rstrip()} …{colon}{numbers}"
