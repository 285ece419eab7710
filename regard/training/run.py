"""A trained run: the model, its tokenizer and its configuration; translates, continues or fills in texts."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard import models
from regard.files import explain_damage
from regard.suggestions import suggest
from regard.training.run_config import TASKS, RunConfig
from regard.training.run_json import RESTORE, read_run_file
from regard.training.tokenizer import BEGIN, END, MASK, SPECIAL, UNKNOWN, Tokenizer
from regard.watching import watch

SHIPPED = Path(__file__).parent / "shipped"
RUNS = Path("runs")


@dataclass(frozen=True)
class Alignment:
    """Attention of each token of a translation over the tokens of the source, at the step that wrote it.

    source          the text that was translated
    translation     the translation that the model wrote
    source_tokens   tokens of the source: the keys
    written_tokens  tokens of the translation and <end>: the queries
    weights         cross-attention of the decoder's last layer, averaged over its heads
    heads           number of heads in that average

    >>> load("phrases").alignment("The cat sat on the mat").translation
    '猫坐在垫子上'
    """

    source: str
    translation: str
    source_tokens: list[str]
    written_tokens: list[str]
    weights: Float[Tensor, "written source"]
    heads: int


@dataclass(frozen=True)
class RunInputs:
    """Arguments of one forward pass of a trained model, and the names of its tokens.

    The tokens of a translation are a dict from module patterns to names, or to a pair of names for queries and keys,
    as `regard.watching.Recording.save` takes it.
    """

    args: tuple[Tensor, ...]
    tokens: list[str] | dict[str, list[str] | tuple[list[str], list[str]]]
    output: str = ""  # the translation that the model writes


@dataclass(frozen=True, eq=False)
class Run:
    """A trained run, as returned by `load`.

    folder      folder of the run
    about       content of run.json: configuration and results
    model       the model, in eval mode
    tokenizer   its tokenizer

    >>> run = load("phrases")
    >>> run.generate("The cat sat on the mat")
    '猫坐在垫子上'
    """

    folder: Path
    about: dict[str, Any]
    model: nn.Module
    tokenizer: Tokenizer

    @property
    def task(self) -> str:
        """The task: "translate", "language" or "masked"."""
        return self.about["plan"]["task"]

    @property
    def has_alignment(self) -> bool:
        """Whether the model has cross-attention, so that `alignment` works."""
        return isinstance(self.model, models.Seq2Seq)

    @property
    def context(self) -> int:
        """The maximum number of tokens in a sequence."""
        return self.model.config.context  # type: ignore[union-attr, return-value]

    def generate(
        self, text: str, *, new_tokens: int | None = None, temperature: float = 0.0, top_k: int | None = None,
        top_p: float | None = None, beams: int = 1, seed: int | None = None,
    ) -> str:  # fmt: skip
        """Return the translation of the text, its continuation, or the text with <mask> filled in.

        Args:
            text: the text to translate, continue or fill in.
            new_tokens: maximum number of tokens to write.
            temperature: 0 takes the most probable token each time; above 0, tokens are sampled.
            top_k: sample only from the k most probable tokens.
            top_p: sample only from the most probable tokens whose probabilities add up to p.
            beams: number of hypotheses of the beam search; the most probable one is returned.
            seed: seed of the sampling.
        """
        if self.task == "masked":
            return self.fill_masks(text)
        options = self._generation_options(text, new_tokens, seed)
        options |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        return self.tokenizer.decode(models.generate(self.model, **options, beams=beams, stop=END)[0].tolist())

    def stream(
        self, text: str, *, new_tokens: int | None = None, temperature: float = 0.0, top_k: int | None = None,
        top_p: float | None = None, seed: int | None = None,
    ) -> Iterator[str]:  # fmt: skip
        """Yield the text that `generate` returns in pieces, each as soon as it is written."""
        if self.task == "masked":
            yield self.fill_masks(text)
            return
        options = self._generation_options(text, new_tokens, seed)
        options |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        ids: list[int] = []
        length = 0
        for token in models.stream(self.model, **options, stop=END):
            ids.append(token)
            written = self.tokenizer.decode(ids)
            if not written.endswith("\ufffd"):  # the last character still lacks some of its bytes
                yield written[length:]
                length = len(written)

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Return the translations of many texts, computed in batches; every token is the most probable one."""
        self._require_task("translate")
        sources = [self.tokenizer.encode(text) or [UNKNOWN] for text in texts]
        for source, text in zip(sources, texts, strict=True):
            self._require_fit(source, text)
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        translations: list[str] = [""] * len(texts)
        for start in range(0, len(order), 128):
            indices = order[start : start + 128]
            rows = models.generate(
                self.model, [[BEGIN]] * len(indices), source=[sources[i] for i in indices], new_tokens=self.context - 1,
                stop=END,
            )  # fmt: skip
            for i, row in zip(indices, rows, strict=True):
                translations[i] = self.tokenizer.decode(row.tolist())
        return translations

    def alignment(self, text: str) -> Alignment:
        """Translate the text and return the attention of each written token over the source.

        >>> alignment = load("phrases").alignment("The cat sat on the mat")
        >>> alignment.written_tokens
        ['猫', '坐', '在', '垫子', '上', '<end>']
        >>> alignment.source_tokens[alignment.weights[3].argmax()]      # 垫子
        'mat'
        """
        if not self.has_alignment:
            raise ValueError(
                f"{self.folder} holds a {type(self.model).__name__}, which has no cross-attention; "
                "an alignment needs a transformer that translates"
            )
        translation, source, target, written_tokens, source_tokens = self._translated_pair(text)
        with watch(self.model, only="*.cross") as seen, torch.no_grad():
            self.model(source, target)
        last = seen.calls[-1]
        # The mean over heads: one head may attend to the verb while another attends to the noun.
        weights = last.weights()[0].mean(0)
        return Alignment(text, translation, source_tokens, written_tokens, weights, last.shape[1])

    def fill_masks(self, text: str) -> str:
        """Return the text with the most probable token in place of each <mask>."""
        pieces = text.split(SPECIAL[MASK])
        best = [candidates[0][0] for candidates in self.mask_candidates(text, 1)]
        return pieces[0] + "".join(word + piece for word, piece in zip(best, pieces[1:], strict=True))

    def mask_candidates(self, text: str, count: int = 5) -> list[list[tuple[str, float]]]:
        """Return for each <mask> of the text the most probable tokens, with their probabilities.

        Only tokens that fit are candidates: no white space, and after a space only tokens that begin a word.
        """
        self._require_task("masked")
        pieces = text.split(SPECIAL[MASK])
        if len(pieces) == 1:
            raise ValueError(f"the text must contain <mask> where a token is to be filled in, got {text!r}")
        # The tokens of bpe contain the space before a word, so there <mask> stands for the space, too.
        bpe = self.tokenizer.kind == "bpe"
        spaced = [bpe and piece.endswith(" ") for piece in pieces[:-1]] + [False]
        parts = [self.tokenizer.encode(p[:-1] if space else p) for p, space in zip(pieces, spaced, strict=True)]
        ids = parts[0] + [i for part in parts[1:] for i in (MASK, *part)]
        self._require_fit(ids, text)
        with torch.no_grad():
            scores: Tensor = self.model.logits(torch.tensor([ids]))[0]  # type: ignore[operator]
        tokens = [self.tokenizer.token(i) for i in range(self.tokenizer.size)]
        words = torch.tensor([i >= len(SPECIAL) and not token.isspace() for i, token in enumerate(tokens)])
        after_space = torch.tensor([token.startswith(" ") for token in tokens])
        candidates = []
        for place, space in zip((place for place, i in enumerate(ids) if i == MASK), spaced, strict=False):
            fits = words & (after_space == space) if bpe else words
            probabilities, best = (scores[place].softmax(-1) * fits).topk(min(count, int(fits.sum())))
            names = [tokens[i].removeprefix(" ") for i in best.tolist()]
            candidates.append(list(zip(names, probabilities.tolist(), strict=True)))
        return candidates

    def pair(self, source: str, target: str) -> tuple[Tensor, Tensor, list[str], list[str]]:
        """Return the model's input for a source and its translation, and the tokens of queries and keys.

        The query of a written token is the decoding step that writes it, whose input is the token before.
        """
        self._require_task("translate")
        tensors = torch.tensor([self._encode(source)]), torch.tensor([[BEGIN, *self.tokenizer.encode(target)]])
        return *tensors, [*self.tokenizer.tokens(target), SPECIAL[END]], self.tokenizer.tokens(source)

    def inputs(self, text: str) -> RunInputs:
        """Return the arguments with which the model processes the text, including the translation it generates.

        >>> inputs = load("phrases").inputs("The cat sat")
        >>> [tensor.shape for tensor in inputs.args], inputs.tokens["encoder"]
        ([torch.Size([1, 3]), torch.Size([1, 6])], ['The', 'cat', 'sat'])
        """
        tokens = self.tokenizer.tokens(text)
        if not tokens:
            raise ValueError('the text must contain at least one word, got none; try "The cat sat on the mat"')
        if self.task != "translate":
            return RunInputs((torch.tensor([self.tokenizer.encode(text)]),), tokens)
        output, source, target, words, keys = self._translated_pair(text)
        # A decoder step reads one word and writes the next; the labels of its self-attention are the words it reads.
        words_read = ["<begin>", *words[:-1]]
        return RunInputs((source, target), {"encoder": keys, "*.cross": (words, keys), "decoder": words_read}, output)

    def _translated_pair(self, text: str) -> tuple[str, Tensor, Tensor, list[str], list[str]]:
        """Translate the text; return the translation and what `pair` returns for the tokens that the model wrote."""
        options = self._generation_options(text, None, None)
        written = models.generate(self.model, **options, stop=END)[0].tolist()
        ids = written[: written.index(END)] if END in written else written
        translation = self.tokenizer.decode(ids)
        if self.tokenizer.encode(translation) == ids:
            return translation, *self.pair(text, translation)
        # The model wrote tokens that its text would not be divided into, such as parts of characters.
        names = [*map(self.tokenizer.token, ids), SPECIAL[END]]
        target = torch.tensor([[BEGIN, *ids]])
        return translation, torch.tensor([options["source"][0]]), target, names, self.tokenizer.tokens(text)

    def _generation_options(self, text: str, new_tokens: int | None, seed: int | None) -> dict[str, Any]:
        ids = self._encode(text)
        source = {"source": [ids]} if self.task == "translate" else {}
        prompt = [BEGIN] if source else ids or [END]  # in the training data, <end> precedes every text
        most = self.context - len(prompt)
        return {
            "prompt": [prompt], **source,
            "new_tokens": min(most, 200) if new_tokens is None else new_tokens,
            "generator": None if seed is None else torch.Generator().manual_seed(seed),
        }  # fmt: skip

    def _encode(self, text: str) -> list[int]:
        ids = self.tokenizer.encode(text)
        if self.task == "translate" and not ids:
            raise ValueError("the text is empty; give at least one word to translate")
        self._require_fit(ids, text)
        if UNKNOWN in ids:
            unseen = ", ".join(self.tokenizer.unseen(text)[:8])
            if set(ids) == {UNKNOWN}:
                raise ValueError(f"the training data contained no word of the text: {unseen}; use other words")
            warnings.warn(f"the training data did not contain {unseen}; the model guesses there", stacklevel=4)
        return ids

    def _require_fit(self, ids: list[int], text: str) -> None:
        most = self.context - (self.task == "language")
        if len(ids) > most:
            raise ValueError(f"the model takes at most {most} tokens, got {len(ids)}; shorten the text {text[:40]!r}…")

    def _require_task(self, task: str) -> None:
        if self.task != task:
            raise ValueError(f"this needs a run that was trained for {task}; {self.folder} was trained for {self.task}")


def shipped() -> list[str]:
    """Return the names of the runs that come with regard.

    >>> shipped()
    ['dates', 'language', 'phrases', 'repeats']
    """
    return sorted(path.parent.name for path in SHIPPED.glob("*/run.json"))


def load(run: str | os.PathLike[str]) -> Run:
    """Load a trained run: a folder that `regard train` wrote, a name below runs/, or one that comes with regard.

    >>> load("dates").generate("Tuesday, March 5, 2024")
    '2024年3月5日星期二'
    """
    folder = find_run(run)
    about = read_run(folder)
    model = models.load(folder).float()
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    sizes = [value for name, value in vars(model.config).items() if name.endswith("vocabulary")]
    if any(size != tokenizer.size for size in sizes):
        raise ValueError(
            f"{folder / 'tokenizer.json'} has {tokenizer.size} tokens, but the model has {sizes[0]}; restore a copy"
        )
    return Run(folder, about, model, tokenizer)


def find_run(run: str | os.PathLike[str]) -> Path:
    """Return the folder of a run, given as in `load`."""
    path = Path(run)
    for folder in (path, RUNS / path, SHIPPED / path):
        if (folder / "run.json").is_file():
            return folder
    if path.is_dir():
        content = ", ".join(sorted(entry.name for entry in path.iterdir())[:5]) or "nothing"
        raise ValueError(f"{path} is no run of regard train: it contains {content}, but no run.json")
    own = sorted(entry.parent.name for entry in RUNS.glob("*/run.json"))
    raise ValueError(f"no run {str(run)!r}: give {suggest(path.name, [*shipped(), *own])}, or the folder of a run")


def read_run(folder: Path) -> dict[str, Any]:
    """Return the content of the run.json of a text model."""
    about = read_run_file(folder, ("plan",), "regard train")
    with explain_damage(folder / "run.json", "a run of regard train", RESTORE):
        task = about["plan"].get("task", about["plan"].get("method"))
    if task not in TASKS:
        raise ValueError(f"{folder} is a run of {task}, not of a text model ({', '.join(TASKS)})")
    return about


def read_config(folder: Path) -> RunConfig:
    """Return the configuration in the run.json of a text model."""
    plan = read_run(folder)["plan"]
    with explain_damage(folder / "run.json", "a run of regard train", RESTORE):
        return RunConfig.from_json(plan)
