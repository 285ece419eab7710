"""Texts of the steps of a trace: title, explanation for a learner, formula as text and in LaTeX.

The texts are in step_texts.toml, where `$name` stands for a number or symbol of the trace. Some steps have a second
text for a special case: no mask, another scale, a query that sees nothing.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from string import Template


@dataclass(frozen=True)
class StepText:
    """The text of one step."""

    title: str
    explanation: str
    formula: str
    latex: str

    def fill(self, **values: object) -> "StepText":
        """Return the text with every `$name` replaced.

        >>> STEP_TEXTS["scale"].fill(d_k=4, scale=0.5).formula
        'scaled = scores / √d_k = scores × 0.5'
        """
        texts = (self.title, self.explanation, self.formula, self.latex)
        return StepText(*(Template(text).substitute(values) for text in texts))


STEP_TEXTS = {
    name: StepText(**text)
    for name, text in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
