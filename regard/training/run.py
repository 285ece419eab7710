"""A trained run: the model, its tokenizer, and what it was trained on; ready to be asked."""

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import models
from regard.suggestions import suggest
from regard.training.run_config import TASKS
from regard.training.tokenizer import BEGIN, END, MASK, SPECIAL, UNKNOWN, Tokenizer

SHIPPED = Path(__file__).parent / "shipped"
RUNS = Path("runs")


@dataclass(frozen=True)
class RunInputs:
    """Arguments of one forward pass of a trained model, and the names of its tokens.

    args        positional arguments of the model
    tokens      token names; for a translation model a dict from module patterns to names, or to a pair of names for
                queries and keys, as `regard.watching.Recording.save` takes it
    output      the translation that the model writes; "" for other tasks
    """

    args: tuple[Tensor, ...]
    tokens: list[str] | dict[str, list[str] | tuple[list[str], list[str]]]
    output: str = ""


@dataclass(frozen=True, eq=False)
class Run:
    """A trained run, from `load`.

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
        """ "translate", "language" or "masked"."""
        return self.about["plan"]["task"]

    @property
    def has_alignment(self) -> bool:
        """Whether the model has cross-attention to draw."""
        return isinstance(self.model, models.Seq2Seq)

    @property
    def context(self) -> int:
        """The longest sequence of tokens that the model takes."""
        return self.model.config.context  # type: ignore[union-attr, return-value]

    def generate(
        self,
        text: str,
        *,
        new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        beams: int = 1,
        seed: int | None = None,
    ) -> str:
        """What the model makes of the text: its translation, its continuation, or the text with <mask> filled in.

        Args:
            text: what is translated, continued or filled in.
            new_tokens: how many tokens to write at most.
            temperature: 0 takes the likeliest token each time; above, tokens are drawn.
            top_k: draw only among so many.
            top_p: draw only among the likeliest that reach this probability together.
            beams: how many hypotheses to keep; with more than 1 the likeliest is returned.
            seed: for draws that can be repeated.
        """
        if self.task == "masked":
            return self.filled(text)
        options = self._asked(text, new_tokens, temperature, top_k, top_p, seed)
        return self.tokenizer.decode(models.generate(self.model, **options, beams=beams, stop=END)[0].tolist())

    def stream(
        self,
        text: str,
        *,
        new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Iterator[str]:
        """As `generate`, piece by piece, each as soon as it is known."""
        if self.task == "masked":
            yield self.filled(text)
            return
        options = self._asked(text, new_tokens, temperature, top_k, top_p, seed)
        ids: list[int] = []
        said = ""
        for token in models.stream(self.model, **options, stop=END):
            ids.append(token)
            whole = self.tokenizer.decode(ids)
            if not whole.endswith("\ufffd"):  # a character of several bytes that are not all there yet
                yield whole[len(said) :]
                said = whole

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Many translations at once, the likeliest tokens."""
        self._must("translate")
        sources = [self._read(text) for text in texts]
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        found: list[str] = [""] * len(texts)
        for start in range(0, len(order), 128):
            places = order[start : start + 128]
            rows = models.generate(
                self.model,
                [[BEGIN]] * len(places),
                source=[sources[i] for i in places],
                new_tokens=self.context - 1,
                stop=END,
            )
            for i, row in zip(places, rows, strict=True):
                found[i] = self.tokenizer.decode(row.tolist())
        return found

    def filled(self, text: str) -> str:
        """The text with the likeliest token in each place of <mask>."""
        self._must("masked")
        pieces = [self.tokenizer.encode(piece) for piece in text.split(SPECIAL[MASK])]
        if len(pieces) == 1:
            raise ValueError(f"the model fills in what is hidden: write <mask> where a token is missing, got {text!r}")
        ids = pieces[0] + [i for piece in pieces[1:] for i in (MASK, *piece)]
        self._fits(ids, text)
        with torch.no_grad():
            scores: Tensor = self.model.logits(torch.tensor([ids]))[0]  # type: ignore[operator]
        scores[:, : len(SPECIAL)] = -torch.inf
        guessed = scores.argmax(-1).tolist()
        return self.tokenizer.decode([guess if i == MASK else i for i, guess in zip(ids, guessed, strict=True)])

    def pair(self, source: str, target: str) -> tuple[Tensor, Tensor, list[str], list[str]]:
        """The model's input for a source and a translation, and the names of queries and keys of its cross-attention.

        The query that stands for a word of the translation is the step that writes it: the place of the word before.
        """
        self._must("translate")
        known = self.tokenizer.encode(target)
        tensors = torch.tensor([self._read(source)]), torch.tensor([[BEGIN, *known]])
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
        output = self.generate(text)
        source, target, words, keys = self.pair(text, output)
        # A decoder step reads the previous word and writes the next; its self-attention is labelled by what it reads.
        words_read = ["<begin>", *words[:-1]]
        return RunInputs((source, target), {"encoder": keys, "*.cross": (words, keys), "decoder": words_read}, output)

    def _asked(
        self, text: str, new_tokens: int | None, temperature: float, top_k: int | None, top_p: float | None,
        seed: int | None,
    ) -> dict[str, Any]:  # fmt: skip
        ids = self._read(text)
        source = {"source": [ids]} if self.task == "translate" else {}
        prompt = [BEGIN] if source else ids or [END]  # texts are divided by <end>: after it, any text begins
        room = self.context - len(prompt)
        return {
            "prompt": [prompt], **source, "temperature": temperature, "top_k": top_k, "top_p": top_p,
            "new_tokens": min(room, 200) if new_tokens is None else new_tokens,
            "generator": None if seed is None else torch.Generator().manual_seed(seed),
        }  # fmt: skip

    def _read(self, text: str) -> list[int]:
        ids = self.tokenizer.encode(text)
        if self.task == "translate" and not ids:
            raise ValueError("there is nothing to translate: the text is empty")
        self._fits(ids, text)
        if UNKNOWN in ids:
            unseen = ", ".join(self.tokenizer.unseen(text)[:8])
            if set(ids) == {UNKNOWN}:
                raise ValueError(f"nothing in the text was in the data the model learnt from: {unseen}")
            warnings.warn(f"the model never saw {unseen} and has to guess there", stacklevel=4)
        return ids

    def _fits(self, ids: list[int], text: str) -> None:
        most = self.context - (self.task == "language")
        if len(ids) > most:
            raise ValueError(
                f"the text has {len(ids)} tokens, and the model takes at most {most}; shorten it: {text[:40]!r}…"
            )

    def _must(self, task: str) -> None:
        if self.task != task:
            raise ValueError(f"{self.folder} was trained for {self.task}, not for {task}")


def shipped() -> list[str]:
    """The names of the runs that come with regard."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/run.json"))


def load(run: str | os.PathLike[str]) -> Run:
    """A trained run: a folder that `regard train` wrote, a name under runs/, or one that comes with regard.

    >>> load("dates").generate("Tuesday, March 5, 2024")
    '2024年3月5日星期二'
    """
    folder = find(run)
    about = read_about(folder)
    model = models.load(folder).float()
    return Run(folder, about, model, Tokenizer.load(folder / "tokenizer.json"))


def find(run: str | os.PathLike[str]) -> Path:
    """The folder of a run, wherever it is."""
    path = Path(run)
    for folder in (path, RUNS / path, SHIPPED / path):
        if (folder / "run.json").is_file():
            return folder
    if path.is_dir():
        there = ", ".join(sorted(entry.name for entry in path.iterdir())[:5]) or "nothing"
        raise ValueError(f"{path} is no run of regard train: it has no run.json, but {there}")
    own = sorted(entry.parent.name for entry in RUNS.glob("*/run.json"))
    raise ValueError(f"no run {str(run)!r}: there is {suggest(path.name, [*shipped(), *own])}, or give a run's folder")


def read_about(folder: Path) -> dict[str, Any]:
    """What run.json says."""
    try:
        about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        task = about["plan"]["task"]
    except (json.JSONDecodeError, KeyError, TypeError):
        raise ValueError(f"{folder / 'run.json'} is damaged, or was not written by regard train") from None
    if task not in TASKS:
        raise ValueError(
            f"{folder} is a run of {task}, which writes no text; runs that do are of {suggest(task, TASKS)}"
        )
    return about
