"""Texts and settings of an experiment, read from `experiments/texts/NAME.toml`.

Each file holds the title, the statement, its sources, the experiment, the rule, and the texts of figures, verdict
sentences and charts, all in English and Chinese, and the settings of each size.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard.claims.charts.chart import Chart
from regard.claims.claim import SIZES, Claim, Conclusion, Row, Settings
from regard.languages import LANGUAGES, Bilingual, bilingual, fill_in, read_texts

FOLDER = Path(__file__).parent / "experiments" / "texts"
SOURCES = {
    "interviews": bilingual("Attention for interviews", "面向面试的注意力"),
    "intuition": bilingual("Attention from intuition to mathematics", "注意力：从直觉到数学"),
    "linear": bilingual("nn.Linear and multi-head attention", "nn.Linear 与多头注意力"),
    "transformer": bilingual("Transformer and self-attention", "Transformer 与自注意力"),
    "connectx": bilingual("An attention network that plays ConnectX", "下 ConnectX 的注意力网络"),
}


def enumerate_in_words(items: Sequence[Bilingual], en: str = ", ", zh: str = "、") -> Bilingual:
    """Return the items joined to one text in each language, "none" if there are none.

    >>> enumerate_in_words([{"en": "row", "zh": "横行"}, {"en": "column", "zh": "竖列"}])
    {'en': 'row, column', 'zh': '横行、竖列'}
    """
    if not items:
        return bilingual("none", "无")
    return bilingual(en.join(item["en"] for item in items), zh.join(item["zh"] for item in items))


class Definition:
    """The texts and settings of one experiment.

    >>> Definition("mask").text("figures.leak", way="mask on")["en"]
    'largest change of earlier logits when the last token is changed, mask on'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._content = read_texts(FOLDER / f"{name}.toml")

    def text(self, key: str, **values: object) -> Bilingual:
        """Return the text with this dotted key in both languages; its {fields} are replaced if values are given."""
        entry: Any = self._content
        for part in key.split("."):
            entry = entry.get(part, {})
        if set(entry) != set(LANGUAGES) or not all(isinstance(entry[language], str) for language in LANGUAGES):
            raise ValueError(f"{FOLDER / self.name}.toml must define {key}.en and {key}.zh")
        return fill_in(entry, **values) if values else entry

    def claim(
        self,
        parts: Callable[[Settings], Sequence[Settings]],
        measure: Callable[[Settings, Settings, int], list[Row]],
        judge: Callable[[list[Row]], Conclusion],
        draw: Callable[[list[Row]], Chart],
    ) -> Claim:
        """Return the claim with these texts and settings and the given functions."""
        sizes = self._content["sizes"]
        if set(sizes) != set(SIZES):
            raise ValueError(f"{FOLDER / self.name}.toml must define sizes {', '.join(SIZES)}, got {', '.join(sizes)}")
        return Claim(
            name=self.name,
            **{key: self.text(key) for key in ("title", "statement", "experiment", "rule")},
            source=tuple(SOURCES[name] for name in self._content["source"]),
            sizes=sizes, parts=parts, measure=measure, judge=judge, draw=draw, timed=self._content.get("timed", False),
        )  # fmt: skip
