"""A question of an interview, with its answer in two depths and two languages.

The cards of a topic are one TOML file, English and Chinese side by side:

    title.en = "Scaling"
    title.zh = "缩放"

    [[card]]
    id = "why-scale"
    shows = 'regard trace "The cat sat on the mat" --no-scale'      a command that runs, or "lab: trace"
    wrong = [4]                         optional: the widespread mistakes that it corrects, by their number below
    question.en = "…"
    question.zh = "…"
    answer.en = "…"                     two to four sentences: what one says in an interview
    answer.zh = "…"
    detail.en = "…"                     the formula and the numbers
    detail.zh = "…"
    given = ["512"]                     numbers that the text sets and does not claim
    checks = [["8 MiB", "512**2 * 8 * 4 / 2**20"]]

A check ties a number in the text to the expression that gives it ("in English|in Chinese" where they are said
differently). Tests evaluate every one and find every longer number that is neither given nor checked, so a card cannot
state a false one.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.languages import LANGUAGES, Bilingual, bilingual

FOLDER = Path(__file__).parent

# In the order in which one learns them.
TOPICS = (
    "mechanism", "scaling", "heads", "masks", "positions", "layers", "models", "cost", "inference", "long", "pytorch",
    "looking", "board",
)  # fmt: skip

LAB_VIEWS = ("trace", "heads", "model", "geometry", "cost", "practice")  # of the lab

# What is widely written about attention and is not so; a card's `wrong` names the numbers.
MISCONCEPTIONS: Mapping[int, Bilingual] = {
    1: bilingual("nn.MultiheadAttention returns weights per head", "nn.MultiheadAttention 返回每个头的权重"),
    2: bilingual("nn.Linear starts with Xavier", "nn.Linear 用 Xavier 初始化"),
    3: bilingual(
        "an attention matrix printed beside code is what the code prints", "代码旁印出的注意力矩阵就是它的输出"
    ),
    4: bilingual(
        "multi-head attention in NumPy does without small weights and without a maximum in its softmax",
        "NumPy 多头注意力不必用小的权重，softmax 也不必减去最大值",
    ),
    5: bilingual("the outer product of similarities is a similarity matrix", "相似度的外积就是相似度矩阵"),
    6: bilingual(
        "heads, batch and projections do not count in the cost of attention", "注意力的开销与头数、批大小和投影无关"
    ),
    7: bilingual("a setting that is out of range may be changed quietly", "超出范围的设置可以悄悄改成范围内的值"),
    8: bilingual("the divisors of 144 end at 24", "144 的因数到 24 为止"),
    9: bilingual("−∞ goes where the mask is not 0", "−∞ 填在掩码不为 0 的位置"),
    10: bilingual("a row with everything hidden is harmless", "整行都被遮住也没有关系"),
    11: bilingual("the W of x @ W is nn.Linear.weight", "x @ W 里的 W 就是 nn.Linear.weight"),
}


@dataclass(frozen=True)
class Card:
    """One question. `shows` is a command of regard, or a view of the lab as `lab: VIEW`."""

    id: str
    topic: str
    question: Bilingual
    answer: Bilingual
    detail: Bilingual
    shows: str
    misconceptions: tuple[int, ...] = ()
    premises: tuple[str, ...] = ()
    checks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Topic:
    """The cards of one file."""

    name: str
    title: Bilingual
    cards: tuple[Card, ...]


@lru_cache(maxsize=1)
def topics() -> tuple[Topic, ...]:
    """All topics, in the order in which one learns them.

    >>> topics()[0].title["zh"]
    '注意力机制'
    """
    return tuple(_read(name, (FOLDER / f"{name}.toml").read_text(encoding="utf-8")) for name in TOPICS)


def all_cards() -> tuple[Card, ...]:
    """The cards of all topics.

    >>> len(all_cards()) >= 60
    True
    """
    return tuple(card for topic in topics() for card in topic.cards)


def find_card(id: str) -> Card:
    """The card of this name.

    >>> find_card("formula").topic
    'mechanism'
    """
    for card in all_cards():
        if card.id == id:
            return card
    raise ValueError(f"there is no card {id!r}; the cards are {', '.join(card.id for card in all_cards())}")


def find_topic(name: str) -> Topic:
    """The topic of this name.

    >>> find_topic("masks").title["en"]
    'Masks'
    """
    for topic in topics():
        if topic.name == name:
            return topic
    raise ValueError(f"the topics are {', '.join(TOPICS)}, got {name!r}")


def _read(topic: str, text: str) -> Topic:
    document = tomllib.loads(text)
    return Topic(topic, _words(document["title"]), tuple(_card(topic, entry) for entry in document["card"]))


def _card(topic: str, entry: Mapping[str, Any]) -> Card:
    known = {"id", "shows", "misconceptions", "question", "answer", "detail", "premises", "checks"}
    if set(entry) - known:
        raise ValueError(f"{topic}.toml: a card has {sorted(known)}, got {sorted(set(entry) - known)} as well")
    return Card(
        id=entry["id"],
        topic=topic,
        question=_words(entry["question"]),
        answer=_words(entry["answer"]),
        detail=_words(entry["detail"]),
        shows=entry["shows"],
        misconceptions=tuple(entry.get("misconceptions", ())),
        premises=tuple(entry.get("premises", ())),
        checks=tuple((said, expression) for said, expression in entry.get("checks", ())),
    )


def _words(entry: Mapping[str, str]) -> Bilingual:
    return {language: entry[language].strip() for language in LANGUAGES}
