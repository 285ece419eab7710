"""Tests of the cards: complete in both languages, correct numbers, commands that run."""

import math
import re
import shlex
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention import embed, projections, trace_layer
from regard.attention.positions.sinusoidal import sinusoidal
from regard.attention.reference import numpy_attention as reference
from regard.cli import main
from regard.languages import LANGUAGES
from regard.learn import all_cards, find_card, find_topic, topics
from regard.learn.cards.card import FOLDER, LAB_VIEWS, MISCONCEPTIONS, TOPICS, Card
from regard.learn.cards.interview import draw_questions

CARDS = all_cards()
each_card = pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
COMMANDS = sorted({card.shows for card in CARDS if not card.shows.startswith("lab: ")})


def text(card: Card, language: str) -> str:
    return f"{card.question[language]}\n{card.answer[language]}\n{card.detail[language]}"  # type: ignore[index]


def told(number: str) -> str:
    return number.rstrip(",").replace(",", "")


def long_numbers(words: str) -> set[str]:
    """Return the numbers with three digits or more, or with decimals."""
    found = {told(number) for number in NUMBER.findall(words)}
    return {number for number in found if "." in number or "e" in number or len(number) >= 3}


@cache
def names() -> dict[str, Any]:
    torch.manual_seed(0)

    def softmax(scores: Any) -> np.ndarray:
        return reference.softmax(np.asarray(scores, dtype=float))

    def fresh_scores(d_model: int, d_k: int) -> np.ndarray:
        x, heads = torch.randn(200, d_model), 64
        with torch.no_grad():
            q, k = (nn.Linear(d_model, heads * d_k)(x).view(200, heads, d_k).transpose(0, 1) for _ in "qk")
            return (q @ k.mT / d_k**0.5).double().numpy()

    return {
        "fresh_scores": fresh_scores,
        "math": math,
        "np": np,
        "torch": torch,
        "nn": nn,
        "rng": np.random.default_rng(0),
        "softmax": softmax,
        "attention": reference.attention,
        "sinusoidal": sinusoidal,
    }


def test_all_card_files_are_read_and_ids_are_unique() -> None:
    assert len(CARDS) >= 60
    assert len({card.id for card in CARDS}) == len(CARDS)
    assert {file.stem for file in FOLDER.glob("*.toml")} == set(TOPICS)
    assert all(len(topic.cards) >= 3 for topic in topics())


def test_every_misconception_has_a_card() -> None:
    assert {number for card in CARDS for number in card.misconceptions} == set(MISCONCEPTIONS) == set(range(1, 12))


@each_card
def test_both_languages_are_complete_and_similar_in_length(card: Card) -> None:
    for part, least in ((card.question, 6), (card.answer, 60), (card.detail, 120)):
        assert set(part) == set(LANGUAGES)
        assert len(part["en"]) >= least
        # Chinese says the same in about half of the letters; a short question may hold a term in both languages.
        assert 0.2 < len(part["zh"]) / len(part["en"]) < (0.8 if len(part["en"]) > 40 else 1.1)
        assert re.search("[一-鿿]", part["zh"])
        assert not re.search("[一-鿿]", re.sub("“[^”]*”", "", part["en"]))
    assert len(card.answer["en"]) < len(card.detail["en"]) * 1.6


@each_card
def test_a_short_answer_has_two_to_four_sentences(card: Card) -> None:
    sentences = re.findall(r"[.?!](?=\s|$)", card.answer["en"])
    assert 2 <= len(sentences) <= 5
    assert 2 <= len(re.findall(r"[。？！；]", card.answer["zh"])) <= 7


@each_card
def test_chinese_text_uses_chinese_punctuation(card: Card) -> None:
    for part in (card.question, card.answer, card.detail):
        assert not re.search(r"[一-鿿][,;:?!]", part["zh"])
        assert not re.search(r"[一-鿿]\.(\s|$)", part["zh"])
        assert part["zh"][-1] in "。？！）”"


@each_card
def test_both_languages_state_the_same_numbers(card: Card) -> None:
    assert long_numbers(text(card, "en")) == long_numbers(text(card, "zh"))


@each_card
def test_every_checked_number_equals_its_expression(card: Card) -> None:
    for said, expression in card.checks:
        for language, words in zip(LANGUAGES, [*said.split("|"), said], strict=False):
            assert words in text(card, language), f"{card.id}: {language} does not say {words!r}"
        number = NUMBER.search(said.split("|")[0].rpartition("= ")[2])
        assert number is not None
        stated = told(number.group())
        with torch.no_grad():
            value = float(eval(expression, names()))  # our own expressions, beside the text they explain
        if "." in stated and "e" not in stated:
            places = len(stated.partition(".")[2])
            assert abs(value - float(stated)) <= 0.5 * 10**-places * (1 + 1e-9), f"{said}: {expression} is {value}"
        elif "e" in stated:
            assert value == pytest.approx(float(stated), rel=1e-2), f"{said}: {expression} is {value}"
        else:
            assert round(value) == int(stated), f"{said}: {expression} is {value}"


@each_card
def test_every_longer_number_is_a_premise_or_checked(card: Card) -> None:
    explained = long_numbers(" ".join(f"{said} {expression}" for said, expression in card.checks))
    said = long_numbers(text(card, "en"))
    assert said <= explained | set(card.premises)
    assert set(card.premises) <= said


@each_card
def test_every_card_refers_to_a_command_or_a_view(card: Card) -> None:
    if card.shows.startswith("lab: "):
        assert card.shows.removeprefix("lab: ") in LAB_VIEWS
    else:
        assert card.shows.startswith("regard ")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)[1:]) == 0
    said = capsys.readouterr()
    assert said.out
    # The first use on a machine says that it compiles; nothing else may be said.
    assert all(line.startswith("regard: compiling ") for line in said.err.splitlines())


def test_statements_about_torch_are_true() -> None:
    torch.manual_seed(0)
    x, sdpa = torch.randn(2, 4, 16), nn.functional.scaled_dot_product_attention
    hidden = torch.zeros(4, 4, dtype=torch.bool)
    layer = nn.MultiheadAttention(16, 2, batch_first=True)
    assert layer(x, x, x)[1].shape == (2, 4, 4)  # mha-weights: the mean over heads
    assert layer(x, x, x, average_attn_weights=False)[1].shape == (2, 2, 4, 4)
    assert layer(x, x, x, attn_mask=~hidden)[0].isnan().all()  # mask-polarity, empty-row: True is ignore, and NaN
    assert (sdpa(x, x, x, attn_mask=hidden) == 0).all()  # True is attend; an empty row is 0
    assert torch.allclose(sdpa(x[:, :1], x, x, is_causal=True), x[:, :1])  # causal-alignment: sees key 0 alone
    assert not torch.equal(sdpa(x, x, x, dropout_p=0.5), sdpa(x, x, x))  # sdpa: dropout without a training mode
    assert not nn.TransformerEncoderLayer(16, 2).norm_first  # pre-post-norm
    assert (nn.MultiheadAttention(16, 2).in_proj_bias == 0).all()  # initialisation
    with pytest.raises(RuntimeError, match="view"):  # view-after-transpose
        torch.zeros(2, 8, 5, 64).transpose(1, 2).view(2, 5, 512)
    dropped = nn.MultiheadAttention(16, 2, dropout=0.5, batch_first=True)(x, x, x)[1].sum(-1)
    assert not torch.allclose(dropped, torch.ones_like(dropped))  # dropout: rows no longer add up to 1


def test_equal_words_have_equal_rows_without_positions() -> None:
    words = ["dog", "bites", "man", "bites", "dog"]
    weights = trace_layer(embed(words, 8, 0), *projections(8, 0), heads=2).weights
    np.testing.assert_allclose(weights[:, 0], weights[:, 4], rtol=1e-12)


def test_unknown_card_and_topic_names_are_rejected() -> None:
    with pytest.raises(ValueError, match="there is no card 'formulas'; the cards are formula, "):
        find_card("formulas")
    with pytest.raises(ValueError, match=r"the topics are mechanism, .*, got 'mask'"):
        find_topic("mask")


def test_an_interview_starts_with_the_mechanism() -> None:
    cards = all_cards()
    for seed in range(20):
        first, *rest = draw_questions(cards, seed)
        assert first in cards[:4]
        assert len({card.topic for card in (first, *rest)}) == len(rest) + 1
    one_topic = [card for card in cards if card.topic == cards[0].topic]
    drawn = draw_questions(one_topic, 1, len(one_topic))
    assert {card.id for card in drawn} == {card.id for card in one_topic}
