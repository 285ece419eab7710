"""Interview questions with a short and a detailed answer, in English and Chinese.

The cards of a topic are in one TOML file, both languages side by side:

    title.en = "Scaling"
    title.zh = "缩放"

    [[card]]
    id = "why-scale"
    shows = 'regard trace "The cat sat on the mat" --no-scale'      a command that shows the answer, or "lab: trace"
    misconceptions = [4]                optional: numbers of the misconceptions below that the card corrects
    question.en = "…"
    question.zh = "…"
    answer.en = "…"                     two to four sentences, as spoken in an interview
    answer.zh = "…"
    detail.en = "…"                     the formula and the numbers
    detail.zh = "…"
    premises = ["512"]                  numbers that the text assumes
    checks = [["8 MiB", "512**2 * 8 * 4 / 2**20"]]

A check relates a number in the text to the expression that computes it ("English text|Chinese text" where the texts
differ). Tests evaluate every expression, and require that each longer number in a text is a premise or is checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.languages import LANGUAGES, Bilingual, bilingual, read_texts

FOLDER = Path(__file__).parent

# In the order of learning.
TOPICS = (
    "mechanism", "scaling", "heads", "masks", "positions", "layers", "models", "cost", "inference", "long", "pytorch",
    "looking", "board",
)  # fmt: skip

LAB_VIEWS = ("trace", "heads", "model", "geometry", "cost", "practice")  # views of the lab

# Common false statements about attention; the field `misconceptions` of a card refers to their numbers.
MISCONCEPTIONS: Mapping[int, Bilingual] = {
    1: bilingual("nn.MultiheadAttention returns weights per head", "nn.MultiheadAttention 返回每个头的权重"),
    2: bilingual("nn.Linear starts with Xavier", "nn.Linear 用 Xavier 初始化"),
    3: bilingual(
        "the attention matrix printed next to a code example is its real output",
        "代码旁边印的注意力矩阵就是这段代码的真实输出",
    ),
    4: bilingual(
        "multi-head attention in NumPy needs neither small initial weights nor the maximum subtracted in softmax",
        "用 NumPy 写多头注意力，权重不必初始化得小，softmax 也不必减去最大值",
    ),
    5: bilingual("the outer product of similarities is a similarity matrix", "相似度的外积就是相似度矩阵"),
    6: bilingual(
        "heads, batch size and projections do not affect the cost of attention", "注意力的开销与头数、批大小和投影无关"
    ),
    7: bilingual(
        "a setting out of range may be changed without telling the user", "超出范围的参数可以不声不响地改成范围内的值"
    ),
    8: bilingual("24 is the largest divisor of 144", "144 的因数最大是 24"),
    9: bilingual("−∞ goes where the mask is not 0", "−∞ 填在掩码不为 0 的位置"),
    10: bilingual("a row in which every key is hidden is harmless", "某一行的键全被遮住也没有关系"),
    11: bilingual("the W of x @ W is nn.Linear.weight", "x @ W 里的 W 就是 nn.Linear.weight"),
}


@dataclass(frozen=True)
class Card:
    """One question of an interview.

    id, topic                   name of the card and of its topic
    question, answer, detail    texts in both languages: the question, the short answer, and more about it
    shows                       command of regard that shows the answer, or a view of the lab as `lab: VIEW`
    misconceptions              numbers of the mistaken beliefs that the card corrects
    premises                    numbers that the texts assume
    checks                      pairs of a number in the texts and a Python expression that gives it

    >>> from regard.learn import find_card
    >>> find_card("formula").shows.startswith("regard trace")
    True
    """

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
    """The cards of one file.

    name, title     name of the file, and title in both languages
    cards           its cards, in the order of learning

    >>> from regard.learn import find_topic
    >>> len(find_topic("masks").cards) >= 3
    True
    """

    name: str
    title: Bilingual
    cards: tuple[Card, ...]


@lru_cache(maxsize=1)
def topics() -> tuple[Topic, ...]:
    """Return all topics, in the order of learning.

    >>> topics()[0].title["zh"]
    '注意力机制'
    """
    documents = {name: read_texts(FOLDER / f"{name}.toml") for name in TOPICS}
    return tuple(
        Topic(name, _bilingual(document["title"]), tuple(_card(name, entry) for entry in document["card"]))
        for name, document in documents.items()
    )


def all_cards() -> tuple[Card, ...]:
    """Return the cards of all topics.

    >>> len(all_cards()) >= 60
    True
    """
    return tuple(card for topic in topics() for card in topic.cards)


def find_card(id: str) -> Card:
    """Return the card with this id.

    >>> find_card("formula").topic
    'mechanism'
    """
    for card in all_cards():
        if card.id == id:
            return card
    raise ValueError(f"there is no card {id!r}; the cards are {', '.join(card.id for card in all_cards())}")


def find_topic(name: str) -> Topic:
    """Return the topic with this name.

    >>> find_topic("masks").title["en"]
    'Masks'
    """
    for topic in topics():
        if topic.name == name:
            return topic
    raise ValueError(f"the topics are {', '.join(TOPICS)}, got {name!r}")


def _card(topic: str, entry: Mapping[str, Any]) -> Card:
    keys = {"id", "shows", "misconceptions", "question", "answer", "detail", "premises", "checks"}
    if set(entry) - keys:
        raise ValueError(f"{topic}.toml: the keys of a card are {sorted(keys)}, got {sorted(set(entry) - keys)}")
    fields: dict[str, Any] = {name: _bilingual(entry[name]) for name in ("question", "answer", "detail")}
    fields |= {name: tuple(entry.get(name, ())) for name in ("misconceptions", "premises")}
    checks = tuple((text, expression) for text, expression in entry.get("checks", ()))
    return Card(id=entry["id"], topic=topic, shows=entry["shows"], checks=checks, **fields)


def _bilingual(entry: Mapping[str, str]) -> Bilingual:
    return {language: entry[language].strip() for language in LANGUAGES}
