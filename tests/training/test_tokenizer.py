"""Tokenizers: encoding, decoding, saving."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.training import Tokenizer
from regard.training.tokenizer import BEGIN, END, MASK, PAD, SPECIAL, UNKNOWN

TEXTS = ["The cat sat on the mat", "猫坐在垫子上。", "2024年3月5日 星期二\n", "def f(x):\n    return x + 1\n"]


@pytest.fixture(scope="module", params=["characters", "bpe"])
def exact(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(TEXTS, request.param, size=300)


@given(text=st.text(st.sampled_from(sorted({c for text in TEXTS for c in text}))))
def test_known_text_is_decoded_exactly(exact: Tokenizer, text: str) -> None:
    assert exact.decode(exact.encode(text)) == text
    assert exact.unseen(text) == []
    if exact.kind == "characters":
        assert "".join(exact.tokens(text)) == text


@given(text=st.text())
def test_bpe_encodes_every_text(text: str) -> None:
    tokenizer = Tokenizer.train(TEXTS, "bpe", size=300)
    clean = text.encode(errors="ignore").decode()
    assert tokenizer.decode(tokenizer.encode(clean)) == clean


def test_special_tokens_have_the_same_ids_in_all_kinds() -> None:
    for kind in ("characters", "words", "bpe"):
        tokenizer = Tokenizer.train(TEXTS, kind, size=300)
        assert [tokenizer.inner.token_to_id(name) for name in SPECIAL] == [PAD, BEGIN, END, MASK, UNKNOWN]
        assert tokenizer.decode([BEGIN, *tokenizer.encode("cat"), END, PAD, PAD]) == "cat"


def test_words_of_the_lexicon_are_one_token() -> None:
    tokenizer = Tokenizer.train(TEXTS, "words", lexicon=["垫子", "垫"])
    assert tokenizer.tokens("The cat sat on the mat") == ["The", "cat", "sat", "on", "the", "mat"]
    assert tokenizer.tokens("猫坐在垫子上。") == ["猫", "坐", "在", "垫子", "上", "。"]
    for text in TEXTS[:2]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_unknown_parts_of_a_text() -> None:
    characters = Tokenizer.train(TEXTS, "characters")
    assert characters.encode("z猫Z").count(UNKNOWN) == 2
    assert characters.unseen("z猫Zz") == ["z", "Z"]
    assert Tokenizer.train(TEXTS, "words").unseen("The zebra sat") == ["zebra"]


def test_encode_all_equals_encode(exact: Tokenizer) -> None:
    assert exact.encode_all(TEXTS) == [exact.encode(text) for text in TEXTS]


def test_the_same_data_gives_the_same_tokenizer(exact: Tokenizer) -> None:
    assert Tokenizer.train(TEXTS, exact.kind, size=300).inner.to_str() == exact.inner.to_str()


def test_saved_and_loaded(exact: Tokenizer, tmp_path: Path) -> None:
    exact.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.kind == exact.kind
    assert loaded.encode(TEXTS[3]) == exact.encode(TEXTS[3])


@pytest.mark.parametrize("content", ["", "{}", '{"kind": "bpe", "tokenizer": {}}', "[1, 2"])
def test_a_damaged_file_is_reported(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match="is not a tokenizer of regard, or is damaged"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="must be characters, words or bpe, got 'letters'"):
        Tokenizer.train(TEXTS, "letters")
    with pytest.raises(ValueError, match="256 bytes and 5 special tokens, got size 100"):
        Tokenizer.train(TEXTS, "bpe", size=100)
