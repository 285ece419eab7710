"""Test inputs of the head atlas: random tokens whose order says what a head must look at.

repeated        A B C D … A B C D …     a random unit twice: at the second B, the token after the first B is next
duplicates      A … B … A … B           tokens that occur again, with other neighbours
needles         x y x … K V … x y K     one pair among a few filler tokens; at the end its key again
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

FILLER = 8  # different tokens around a needle


@dataclass(frozen=True)
class TestInputs:
    """Token ids (B, length) of each test, and the places that the detectors compare.

    start           number of tokens before the test, such as a token that begins every text
    unit            number of tokens of the unit that occurs twice in `repeated`
    earlier         for `duplicates`: earlier place of the same token, (B, length); −1 where there is none
    needle          for `needles`: place of the value, (B,)
    """

    __test__ = False  # not a test of pytest

    repeated: Int[Tensor, "batch tokens"]
    duplicates: Int[Tensor, "batch tokens"]
    needles: Int[Tensor, "batch tokens"]
    start: int
    unit: int
    earlier: Int[Tensor, "batch tokens"]
    needle: Int[Tensor, "batch"]


def make_inputs(vocabulary: Sequence[int], prefix: Sequence[int], length: int, items: int, seed: int) -> TestInputs:
    """Return test inputs of `items` sequences of `length` tokens, each of which begins with the prefix."""
    generator = torch.Generator().manual_seed(seed)
    tokens, start = torch.tensor(vocabulary), len(prefix)
    size = length - start
    unit = min(size // 2, len(tokens))  # a unit of different tokens, so that the token before is known

    def draw(count: int) -> Tensor:
        return tokens[torch.randperm(len(tokens), generator=generator)[:count]]

    repeated, duplicates, needles, earlier, needle = [], [], [], [], []
    for _ in range(items):
        repeated.append(draw(unit).repeat(2))
        words = draw(unit).repeat(2)[torch.randperm(2 * unit, generator=generator)]
        same = words[:, None] == words
        places = torch.where(same.tril(-1).any(1), same.tril(-1).int().argmax(1), -1)
        duplicates.append(words)
        earlier.append(places)
        few = draw(FILLER + 2)
        filler = few[2:][torch.randint(len(few) - 2, (2 * unit,), generator=generator)]
        place = int(torch.randint(unit // 4, unit, (), generator=generator))
        filler[place : place + 2] = few[:2]
        filler[-1] = few[0]
        needles.append(filler)
        needle.append(place + 1 + start)
    before = torch.tensor(list(prefix), dtype=torch.long).expand(items, -1)
    first, second, third = (torch.cat([before, torch.stack(x)], 1) for x in (repeated, duplicates, needles))
    shifted = torch.stack(earlier)
    shifted = torch.where(shifted < 0, -1, shifted + start)
    padding = torch.full((items, start), -1)
    return TestInputs(first, second, third, start, unit, torch.cat([padding, shifted], 1), torch.tensor(needle))


def vocabulary_of(model: nn.Module, vocabulary: Any) -> tuple[list[int], list[int]]:
    """Return the token ids to draw from and those that begin a text, from a tokenizer, a number or a list of ids.

    None takes the size of the model's vocabulary from its configuration or embedding.
    """
    prefix: list[int] = []
    if vocabulary is None:
        vocabulary = _vocabulary_size(model)
    if hasattr(vocabulary, "all_special_ids"):  # a tokenizer of Hugging Face
        special, size = set(vocabulary.all_special_ids), len(vocabulary)
        first = next((x for x in (vocabulary.cls_token_id, vocabulary.bos_token_id) if x is not None), None)
        prefix = [] if first is None else [first]
        ids = [i for i in range(size) if i not in special]
    elif hasattr(vocabulary, "encode") and isinstance(getattr(vocabulary, "size", None), int):  # of regard
        from_special = len(getattr(vocabulary, "special", ())) or 5
        ids = list(range(from_special, vocabulary.size))
    elif isinstance(vocabulary, int) and not isinstance(vocabulary, bool):
        ids = list(range(vocabulary))
    elif isinstance(vocabulary, Sequence) and all(isinstance(i, int) for i in vocabulary):
        ids = list(vocabulary)
    else:
        raise TypeError(
            f"vocabulary must be a tokenizer, the number of tokens or a list of token ids, got {vocabulary!r}"
        )
    if len(ids) < FILLER + 2:
        raise ValueError(f"the tests need at least {FILLER + 2} different tokens, got {len(ids)}")
    return ids, prefix


def _vocabulary_size(model: nn.Module) -> int:
    config: Any = getattr(model, "config", None)
    for name in ("vocab_size", "vocabulary", "target_vocabulary"):
        if isinstance(size := getattr(config, name, None), int):
            sizes = [size, getattr(config, "source_vocabulary", size)]
            return min(sizes)
    sizes = [module.num_embeddings for module in model.modules() if isinstance(module, nn.Embedding)]
    if not sizes:
        raise ValueError("the model does not show the size of its vocabulary; pass a tokenizer, or vocabulary=…")
    return max(sizes)
