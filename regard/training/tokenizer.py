"""Text as numbers: one tokenizer of each kind, learnt from the data and saved beside the model.

| kind | a token is | for |
|---|---|---|
| characters | one character | dates: every digit is visible |
| words | a word of letters, or a word of the lexicon, or one other character; spaces are not kept | phrases |
| bpe | a sequence of bytes that is frequent in the data (Sennrich et al., 2016); nothing is ever unknown | any text |

The five special tokens have the same numbers in all of them.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from regard.files import write_atomic

SPECIAL = ("<pad>", "<begin>", "<end>", "<mask>", "<unknown>")
PAD, BEGIN, END, MASK, UNKNOWN = range(len(SPECIAL))
KINDS = ("characters", "words", "bpe")
LETTERS = r"[\p{L}&&[^\p{Han}]]+"


class Tokenizer:
    """Learnt with `Tokenizer.train(texts, kind)`, read with `Tokenizer.load(file)`.

    >>> tokenizer = Tokenizer.train(["The cat sat", "猫坐在垫子上"], "words", lexicon=["垫子"])
    >>> tokenizer.tokens("cat 垫子上")
    ['cat', '垫子', '上']
    >>> tokenizer.decode(tokenizer.encode("The cat sat"))
    'The cat sat'
    >>> tokenizer.unseen("The dog sat")
    ['dog']
    """

    def __init__(self, kind: str, inner: "tokenizers.Tokenizer") -> None:
        self.kind = kind
        self.inner = inner

    @classmethod
    def train(
        cls, texts: Iterable[str], kind: str = "bpe", *, size: int = 1024, lexicon: Sequence[str] = ()
    ) -> "Tokenizer":
        """Learn from the texts.

        Args:
            texts: what the tokenizer shall be able to write.
            kind: "characters", "words" or "bpe".
            size: tokens at most, the special ones among them; fewer than 512 make no sense for bytes ("bpe").
            lexicon: for "words": words that are written without spaces between them, kept in one piece.
        """
        inner = _untrained(kind, lexicon)
        options: dict[str, Any] = {"special_tokens": list(SPECIAL), "show_progress": False}
        if kind == "bpe":
            if size < 5 + 256:
                raise ValueError(f"a bpe vocabulary holds 256 bytes and 5 special tokens, got size {size}; try 1024")
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            trainer: Any = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, **options)
        else:
            trainer = trainers.WordLevelTrainer(vocab_size=100_000, **options)
        inner.train_from_iterator(texts, trainer)
        return cls(kind, inner)

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return self.inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The text's tokens as numbers, without begin and end."""
        return self.inner.encode(text).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts at once, which is faster."""
        return [encoding.ids for encoding in self.inner.encode_batch(list(texts))]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these numbers; special tokens have none."""
        if self.kind != "words":
            return self.inner.decode(list(ids))
        text = " ".join(token for i in ids if i >= len(SPECIAL) and (token := self.inner.id_to_token(i)))
        return re.sub(r" (?=[^\w\s])|(?<=[⺀-鿿，。？！、]) | (?=[⺀-鿿])", "", text)

    def tokens(self, text: str) -> list[str]:
        """The pieces of the text, as they stand in it."""
        return [text[start:end] for start, end in self.inner.encode(text).offsets]

    def unseen(self, text: str) -> list[str]:
        """The pieces that were not in the data that the tokenizer learnt from, once each."""
        encoding = self.inner.encode(text)
        pieces = (text[a:b] for i, (a, b) in zip(encoding.ids, encoding.offsets, strict=True) if i == UNKNOWN)
        return list(dict.fromkeys(pieces))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write it as JSON."""
        content = {"kind": self.kind, "tokenizer": json.loads(self.inner.to_str())}
        write_atomic(Path(file), (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> "Tokenizer":
        """Read what `save` wrote."""
        path = Path(file)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls(content["kind"], tokenizers.Tokenizer.from_str(json.dumps(content["tokenizer"])))
        except FileNotFoundError:
            raise
        except Exception as error:  # the library raises bare Exception for a file that is not its own
            raise ValueError(
                f"{path} is no tokenizer of regard ({error}); train again, or take it from a copy"
            ) from None


def _untrained(kind: str, lexicon: Sequence[str]) -> "tokenizers.Tokenizer":
    if kind == "bpe":
        inner = tokenizers.Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        return inner
    if kind not in KINDS:
        raise ValueError(f"a tokenizer is of kind {', '.join(KINDS)}, got {kind!r}")
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
