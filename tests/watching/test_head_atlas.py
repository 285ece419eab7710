"""The head atlas labels what heads do, and confirms it by ablation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.training import load
from regard.watching import Atlas


@pytest.fixture(scope="module")
def atlas() -> Atlas:
    run = load("repeats")
    return regard.atlas(run.model, run.tokenizer, progress=False)


def test_induction_heads_of_the_shipped_model(atlas: Atlas, tmp_path: Path) -> None:
    assert atlas.labelled("induction") == [(1, 6), (1, 7)]
    assert len(atlas.rows()) == 16
    assert atlas.table().row_count == 16
    page = atlas.save(tmp_path / "atlas.html").read_text()
    assert page.count("<tr>") == 17
    assert "not confirmed" in page


class Looking(nn.Module):
    """A model whose single heads look where they are told, whatever they have learnt."""

    def __init__(self, *places: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.places, self.num_heads = places, len(places)
        self.embedding = nn.Embedding.from_pretrained(torch.eye(40))

    def forward(self, ids: Tensor) -> Tensor:
        heads, length = len(self.places), ids.shape[1]
        scores = torch.stack([torch.stack([place(row, length) for place in self.places]) for row in ids])
        x = self.embedding(ids)
        values = x[:, None].expand(-1, heads, -1, -1)
        k = torch.eye(length).expand(len(ids), heads, -1, -1)
        visible = torch.ones(length, length, dtype=torch.bool).tril()
        out = F.scaled_dot_product_attention(30 * scores, k, values, attn_mask=visible, scale=1.0)
        return 20 * out.sum(1)


def previous(row: Tensor, length: int) -> Tensor:
    return torch.eye(length).roll(1, 0).tril(-1)


def first(row: Tensor, length: int) -> Tensor:
    return F.one_hot(torch.zeros(length, dtype=torch.long), length).float()


def same(row: Tensor, length: int) -> Tensor:
    return (row[:, None] == row).float().tril(-1)


def after_same(row: Tensor, length: int) -> Tensor:
    return F.pad(same(row, length), (1, 0))[:, :-1].tril(-1)


def test_heads_that_look_at_known_places() -> None:
    result = regard.atlas(Looking(previous, first, same, after_same), list(range(40)), length=64, progress=False)
    best = [max(head.scores, key=lambda kind: head.scores[kind] - (kind == "positional")) for head in result.heads]
    assert best == ["previous token", "sink", "duplicate token", "induction"]
    assert result.labelled("induction") == [(0, 3)]
    assert "retrieval" in result.heads[3].confirmed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocabulary": 5}, "at least 10 different tokens, got 5"),
        ({"vocabulary": 40, "length": 8}, "at least 16 tokens and 2 sequences, got length=8"),
        ({"vocabulary": 40, "thresholds": {"x": 0.5}}, "no kind 'x'"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regard.atlas(Looking(previous), **options)
