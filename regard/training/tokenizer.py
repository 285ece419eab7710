"""Tokenizers, trained on the data of a run and saved beside its model.

| kind | a token is | for |
|---|---|---|
| characters | one character | dates, where every digit matters |
| words | a word of letters, a word of the lexicon, or one other character; spaces are dropped | phrases |
| bpe | a frequent sequence of bytes (Sennrich et al., 2016); no text is unknown | any text |

The five special tokens have the same ids in all kinds.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

from regard.extras import needs
from regard.files import explain_damage, read_json, write_json

with needs("train", "a model of text"):
    import tokenizers
    from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

SPECIAL = ("<pad>", "<begin>", "<end>", "<mask>", "<unknown>")
PAD, BEGIN, END, MASK, UNKNOWN = range(len(SPECIAL))
KINDS = ("characters", "words", "bpe")
LETTERS = r"[\p{L}&&[^\p{Han}]]+"


class Tokenizer:
    """Converts text to token ids and back; made by `Tokenizer.train(texts, kind)` or `Tokenizer.load(file)`.

    kind        "characters", "words" or "bpe"
    inner       tokenizer of the package tokenizers

    >>> tokenizer = Tokenizer.train(["The cat sat", "猫坐在垫子上"], "words", lexicon=["垫子"])
    >>> tokenizer.tokens("cat 垫子上")
    ['cat', '垫子', '上']
    >>> tokenizer.decode(tokenizer.encode("The cat sat"))
    'The cat sat'
    >>> tokenizer.unseen("The dog sat")
    ['dog']
    """

    def __init__(self, kind: str, inner: "tokenizers.Tokenizer") -> None:
        self.kind, self.inner = kind, inner

    @classmethod
    def train(cls, texts: Iterable[str], kind: str = "bpe", *, size: int = 1024, lexicon: Sequence[str] = ()) -> Self:
        """Train a tokenizer.

        Args:
            texts: the training texts.
            kind: "characters", "words" or "bpe".
            size: for "bpe": maximum number of tokens, including 256 bytes and 5 special tokens.
            lexicon: for "words": words of a language without spaces, each of which becomes one token.
        """
        inner = _untrained(kind, lexicon)
        options: dict[str, Any] = {"special_tokens": list(SPECIAL), "show_progress": False}
        if kind == "bpe":
            if size < 5 + 256:
                raise ValueError(f"a bpe vocabulary contains 256 bytes and 5 special tokens, got size {size}; try 1024")
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            trainer: Any = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, **options)
        else:
            trainer = trainers.WordLevelTrainer(vocab_size=100_000, **options)
        inner.train_from_iterator(texts, trainer)
        return cls(kind, inner)

    @property
    def size(self) -> int:
        """The number of tokens."""
        return self.inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of the text, without <begin> and <end>."""
        return self.inner.encode(text).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of many texts; faster than one `encode` each."""
        return [encoding.ids for encoding in self.inner.encode_batch(list(texts))]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids; special tokens are dropped."""
        if self.kind != "words":
            return self.inner.decode(list(ids))
        text = " ".join(token for i in ids if i >= len(SPECIAL) and (token := self.inner.id_to_token(i)))
        return re.sub(r" (?=[^\w\s])|(?<=[⺀-鿿，。？！、]) | (?=[⺀-鿿])", "", text)

    def tokens(self, text: str) -> list[str]:
        """Return the text of each token of `text`."""
        return [text[start:end] for start, end in self.inner.encode(text).offsets]

    def token(self, i: int) -> str:
        """Return the text of one token id; the name of a special token; � for a part of a character."""
        return SPECIAL[i] if i < len(SPECIAL) else self.inner.decode([i])

    def word_starts(self) -> list[bool]:
        """Return for each token id whether the token begins a word, so that it does not continue the one before.

        >>> Tokenizer.train(["The cat sat"], "words").word_starts()[5:]
        [True, True, True]
        """
        if self.kind != "bpe":
            return [True] * self.size
        # A token that begins with a letter or with a part of a character (�) continues a word.
        return [i < len(SPECIAL) or not re.match(r"[\w\ufffd]", self.token(i)) for i in range(self.size)]

    def unseen(self, text: str) -> list[str]:
        """Return the parts of the text that are unknown to the tokenizer, each once."""
        encoding = self.inner.encode(text)
        pieces = (text[a:b] for i, (a, b) in zip(encoding.ids, encoding.offsets, strict=True) if i == UNKNOWN)
        return list(dict.fromkeys(pieces))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the tokenizer as JSON."""
        content = {"kind": self.kind, "tokenizer": json.loads(self.inner.to_str())}
        write_json(file, content)

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> Self:
        """Read a tokenizer that `save` wrote."""
        explanation = file, "a tokenizer of regard", "train again, or restore a copy"
        with explain_damage(*explanation):
            content = read_json(*explanation)
            if content["kind"] not in KINDS:
                raise ValueError(f"the kind must be one of {', '.join(KINDS)}, got {content['kind']!r}")
            inner = tokenizers.Tokenizer.from_str(json.dumps(content["tokenizer"]))
            if sorted(inner.get_vocab().values()) != list(range(inner.get_vocab_size())):
                raise ValueError("expected the token ids 0, 1, 2, …, each once")
            if [inner.token_to_id(name) for name in SPECIAL] != list(range(len(SPECIAL))):
                raise ValueError(f"expected the tokens {', '.join(SPECIAL)} first")
            return cls(content["kind"], inner)


def _untrained(kind: str, lexicon: Sequence[str]) -> "tokenizers.Tokenizer":
    if kind == "bpe":
        inner = tokenizers.Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        return inner
    if kind not in KINDS:
        raise ValueError(f"the kind of tokenizer must be {', '.join(KINDS[:-1])} or {KINDS[-1]}, got {kind!r}")
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL[UNKNOWN]))
    if kind == "characters":
        inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        inner.decoder = decoders.Fuse()
    else:
        longest_first = sorted(set(lexicon), key=lambda word: (-len(word), word))
        pattern = "|".join([*map(re.escape, longest_first), LETTERS, r"[\s\S]"])
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    return inner
