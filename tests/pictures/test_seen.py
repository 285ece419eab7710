"""Saved recordings: pages and overviews of real models, with the right names and numbers."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, T5Config, T5Model

import regard
from regard.pictures import Factors, seen_overview, seen_page
from regard.pictures.page import Page
from regard.pictures.weights import recorded_heads as drawn
from regard.watching import Recording
from regard.watching.recording import Unseen

WORDS = ["The", "cat", "sat", "on", "the", "mat"]


def bert_seen(length: int = 6, batch: int = 2, **options) -> Recording:
    torch.manual_seed(0)
    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, vocab_size=50)
    model = BertModel(config).eval()
    with torch.no_grad(), regard.watch(model, **options) as seen:
        model(input_ids=torch.randint(0, 50, (batch, length)))
    return seen


def t5_seen() -> tuple[nn.Module, Recording]:
    torch.manual_seed(0)
    config = T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=20, decoder_start_token_id=0)
    model = T5Model(config).eval()
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=torch.randint(1, 20, (1, 5)), decoder_input_ids=torch.randint(1, 20, (1, 3)))
    return model, seen


def facts_of(page: Page) -> dict[str, Any]:
    """What the page knows of its heads."""
    return json.loads(re.search(r'id="facts">(.*)</script>', page.html)[1])


def test_the_overview_shows_the_entropies_and_the_weights() -> None:
    seen = bert_seen()
    figure = seen_overview(seen, batch=1).figure
    entropy = np.stack([call.entropy()[1].mean(-1).numpy() for call in seen.calls])
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), entropy, rtol=1e-6)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["layer 0", "layer 1"]
    small = figure.axes[1].images[1].get_array()
    head = seen.calls[0].weights(batch=1, head=0).numpy()
    np.testing.assert_allclose(small, head / head.max(), atol=1e-6)


@pytest.mark.parametrize("length", [6, 64, 200])
@pytest.mark.parametrize("causal", [False, True])
def test_the_small_picture_keeps_the_largest_weight_of_each_cell(length: int, causal: bool) -> None:
    layer = regard.nn.MultiHeadAttention(16, 2, causal=causal)
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(torch.randn(1, length, 16))
    call = seen.calls[0]
    small, whole = drawn.pooled(call, 0), call.weights(batch=0).numpy()
    size = small.shape[1]
    of = np.arange(length) * size // length
    for i in (0, size // 2, size - 1):
        for j in (0, size // 2, size - 1):
            expected = whole[:, of == i][:, :, of == j].max((-1, -2))
            np.testing.assert_allclose(small[:, i, j], expected, atol=1e-6)


def test_fused_calls_are_saved_as_queries_keys_and_mask() -> None:
    layer = regard.nn.MultiHeadAttention(16, 4, kv_heads=2, causal=True)
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(torch.randn(2, 5, 16), mask=regard.masks.padding([5, 3]))
    for batch in (0, 1):
        factors = drawn._layer(seen.calls[0], batch)
        assert isinstance(factors, Factors)
        found = np.stack([factors.weights(h) for h in range(4)])
        np.testing.assert_allclose(found, seen.calls[0].weights(batch=batch), atol=1e-6)


def test_layers_of_different_lengths_share_a_page() -> None:
    _, seen = t5_seen()
    shapes = [call.shape[2:] for call in seen.calls]
    assert set(shapes) == {(5, 5), (3, 3), (3, 5)}
    source, target = WORDS[:5], ["<pad>", "猫", "坐"]
    names = drawn.token_names(
        seen.calls, {"encoder": source, "*.SelfAttention": target, "*.EncDecAttention": (target, source)}
    )
    assert [(len(q), len(k)) for q, k in names] == shapes
    page = seen_page(seen, {"encoder": source, "*": target})
    assert "猫" in page.html
    assert "block.0.layer.1.EncDecAttention" in page.html


@pytest.mark.parametrize(
    ("shape", "queries", "keys"),
    [((6, 6), WORDS, WORDS), ((1, 4), ["on"], WORDS[:4]), ((6, 9), WORDS, None), ((3, 9), None, None)],
)
def test_names_are_assigned_by_length(shape, queries, keys) -> None:
    class Named:
        def __init__(self, *shape: int) -> None:
            self.shape = (1, 1, *shape)

    assert drawn.token_names([Named(6, 6), Named(*shape)], WORDS)[1] == (queries, keys)


def test_saving(tmp_path: Path) -> None:
    seen = bert_seen()
    for ending in ("html", "png", "svg", "pdf"):
        assert seen.save(tmp_path / f"x.{ending}", WORDS).stat().st_size > 2000
    assert "Attention of BertModel: encoder.layer.*.attention.self" in (tmp_path / "x.html").read_text()
    assert "srcdoc" in (seen._repr_html_() or "")
    assert "<svg" in (bert_seen(keep="statistics")._repr_html_() or "")
    assert Recording(nn.Linear(1, 1))._repr_html_() is None


def test_pages_hold_batch_items_and_both_runs() -> None:
    seen = bert_seen()
    facts = facts_of(seen_page(seen))
    assert facts["report"]["items"] == [0, 1]
    assert len(facts["heads"]) == len(facts["report"]["statistics"]) == 2 * 2 * 4
    one = facts_of(seen_page(seen, batch=1, other=seen))
    assert one["report"]["items"] == [1]
    assert one["report"]["statistics"] == facts["report"]["statistics"][8:] * 2
    assert facts_of(seen_page(bert_seen(batch=3), most=2 * 288))["report"]["items"] == [0, 1]


def test_unknown_distances_and_numbers_that_are_not_finite(tmp_path: Path) -> None:
    _, seen = t5_seen()
    facts = facts_of(seen_page(seen))
    cross = next(i for i, call in enumerate(seen.calls) if call.shape[2:] == (3, 5))
    assert [row[1] is None for row in facts["report"]["statistics"]] == [i // 2 == cross for i in range(6)]
    layer = regard.nn.MultiHeadAttention(16, 2)
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(torch.full((1, 3, 16), torch.nan))
    facts = facts_of(seen_page(seen))
    assert facts["report"]["runs"][0]["findings"][0]["what"] == "not finite"
    assert facts["report"]["statistics"][0][0] == "NaN"


def test_large_recordings_show_in_notebooks_what_was_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "INLINE_WEIGHTS", 10)
    seen = bert_seen()
    seen.unseen.append(Unseen("pooling<1>", "no product was found"))
    assert "<li>Not seen: pooling&lt;1&gt;: no product was found</li>" in (seen._repr_html_() or "")


def test_recordings_of_statistics_have_an_overview(tmp_path: Path) -> None:
    seen = bert_seen(keep="statistics")
    assert len(seen_overview(seen).figure.axes) == 1  # the table alone
    with pytest.raises(ValueError, match="keep='statistics', which stores no queries"):
        seen.save(tmp_path / "x.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("save", "error", "message"),
    [
        (lambda seen: seen.save("x.bmp"), ValueError, "saved as .png, .svg, .pdf or .html"),
        (lambda seen: seen.save("x.html", WORDS[:2]), ValueError, "got 2; the calls are 6×6"),
        (lambda seen: seen.save("x.html", "The cat"), TypeError, "a list of names, got the string"),
        (lambda seen: seen.save("x.html", batch=2), ValueError, "batch must be between 0 and 1, got 2"),
        (lambda seen: seen.save("x.html", [WORDS] * 3), ValueError, "each of 2 batch items, got 3 lists"),
        (lambda seen: seen.save("x.html", other=t5_seen()[1]), ValueError, "the two recordings have different calls"),
        (lambda seen: seen.save("x.png", batch=[0, 1]), ValueError, "an overview shows one batch item, got batch="),
        (lambda seen: seen_page(seen, most=100), ValueError, "at most 100 weights, got 288 of 2 calls"),
        (lambda seen: Recording(nn.Linear(1, 1)).save("x.html"), ValueError, "no attention call was recorded"),
    ],
)
def test_mistakes_are_named(save, error, message) -> None:
    with pytest.raises(error, match=message):
        save(bert_seen())
