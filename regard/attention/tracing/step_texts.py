"""Texts of the steps of a trace: title, explanation for a learner, formula as text and in LaTeX.

The texts are in step_texts.toml, where `$name` stands for a number or symbol of the trace. Some steps have a second
text for a special case: no mask, another scale, a query that sees no key.
"""

import tomllib
from pathlib import Path
from string import Template

STEP_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def step_text(name: str, **values: object) -> dict[str, str]:
    """Return title, explanation, formula and LaTeX of a step, with every `$name` replaced.

    >>> step_text("scale", d_k=4, scale=0.5)["formula"]
    'scaled = scores / √d_k = scores × 0.5'
    """
    return {field: Template(text).substitute(values) for field, text in STEP_TEXTS[name].items()}
