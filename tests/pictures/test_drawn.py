"""What each picture shows: the numbers it was given, with their names."""

from pathlib import Path

import numpy as np
import pytest

import regard
from regard.attention import Trace, embed, projections, trace_layer
from regard.pictures import (
    Picture,
    attention_grid,
    computation_flow,
    cross_attention,
    entropies,
    head_heatmaps,
    head_lines,
    information_filter,
    layer_overview,
    query_arrows,
    similarity_heatmap,
    weight_bars,
    weight_heatmap,
)

WORDS = ["The", "cat", "sat", "on", "the", "mat"]
HAN = list("猫坐在垫子上")
CAUSAL = np.tri(6, dtype=bool)


def traced(words: list[str] = WORDS, context: list[str] | None = None, **options: object) -> Trace:
    vectors = None if context is None else embed(context, 8)
    given = dict(heads=2, tokens=words, context=vectors, context_tokens=context, **options)
    return trace_layer(embed(words, 8), *projections(8), **given)


def texts(picture: Picture) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in picture.figure.findobj(Text)]


def ticks(labels: list) -> list[str]:
    return [label.get_text() for label in labels]


class TestBars:
    @pytest.mark.parametrize("count", [1, 3, 40])
    def test_heights_names_and_numbers(self, count: int) -> None:
        row = np.random.default_rng(0).dirichlet(np.ones(count))
        names = [f"w{i}" for i in range(count)]
        axes = weight_bars(row, names).figure.axes[0]
        upright = count <= 24
        sizes = [bar.get_height() if upright else bar.get_width() for bar in axes.patches]
        np.testing.assert_allclose(sizes, row)
        assert ticks(axes.get_xticklabels() if upright else axes.get_yticklabels()) == names
        assert [float(text.get_text().replace("−", "-")) for text in axes.texts] == [float(f"{w:.3g}") for w in row]
        assert {axes.get_xlabel(), axes.get_ylabel()} == {"key", "weight"}

    def test_a_row_of_a_trace(self) -> None:
        trace = traced()
        picture = weight_bars(trace, query=5, head=1)
        np.testing.assert_allclose([bar.get_height() for bar in picture.figure.axes[0].patches], trace.weights[1, 5])
        assert picture.title == "Attention weights of “mat”"


class TestHeatmap:
    def test_the_image_shows_the_weights(self) -> None:
        trace = traced(mask=CAUSAL)
        picture = weight_heatmap(trace, head=1)
        axes = picture.figure.axes[0]
        np.testing.assert_array_equal(axes.images[0].get_array(), trace.weights[1])
        assert ticks(axes.get_xticklabels()) == ticks(axes.get_yticklabels()) == WORDS
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")
        assert picture.figure.axes[1].get_ylabel() == "weight"  # the colour bar
        assert len(axes.texts) == 36
        assert axes.texts[6 * 5 + 2].get_text() == f"{trace.weights[1, 5, 2]:.3f}"
        assert axes.texts[1].get_text() == "0"

    def test_long_sentences_have_names_but_no_numbers(self) -> None:
        axes = weight_heatmap(np.full((40, 40), 1 / 40), [f"w{i}" for i in range(40)]).figure.axes[0]
        assert not axes.texts
        assert len(axes.get_xticklabels()) == 40
        assert len(weight_heatmap(np.full((400, 400), 1 / 400)).figure.axes[0].get_xticks()) <= 100

    def test_nan_is_drawn_and_labelled(self, tmp_path: Path) -> None:
        weights = [[np.nan, np.nan], [0.5, 0.5]]
        picture = weight_heatmap(weights, ["a", "b"])
        picture.save(tmp_path / "x.png")
        assert [text.get_text() for text in picture.figure.axes[0].texts] == ["nan", "nan", "0.500", "0.500"]
        weight_bars(weights[0], ["a", "b"]).save(tmp_path / "y.png")

    def test_similarity_is_q_times_k_transposed(self) -> None:
        rng = np.random.default_rng(0)
        q, k = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
        axes = similarity_heatmap(q, k, ["a", "b", "c"], list("vwxyz"), scale=0.5).figure.axes[0]
        np.testing.assert_allclose(axes.images[0].get_array(), 0.5 * q @ k.T)
        assert ticks(axes.get_yticklabels()) == ["a", "b", "c"]
        assert ticks(axes.get_xticklabels()) == list("vwxyz")

    def test_similarity_is_not_an_outer_product(self) -> None:
        """The source documents draw an outer product."""
        x = embed(WORDS, 8)
        drawn = similarity_heatmap(x, x, WORDS).figure.axes[0].images[0].get_array()
        assert np.linalg.matrix_rank(np.asarray(drawn)) > 1


class TestHeads:
    def test_every_head_on_one_scale(self) -> None:
        weights = np.random.default_rng(0).dirichlet(np.ones(6), size=(5, 6))
        picture = head_heatmaps(weights, WORDS)
        drawn = [axes for axes in picture.figure.axes if axes.images and axes.get_visible()]
        assert len(drawn) == 5
        for i, axes in enumerate(drawn):
            np.testing.assert_array_equal(axes.images[0].get_array(), weights[i])
            assert axes.images[0].get_clim() == (0, weights.max())
            assert axes.get_title() == f"head {i}"

    def test_overview_has_a_number_and_a_thumbnail_for_each(self) -> None:
        weights = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 3, 6))
        numbers, small = layer_overview(weights=weights).figure.axes[:2]
        np.testing.assert_allclose(numbers.images[0].get_array(), entropies(weights))
        assert float(numbers.texts[4].get_text()) == pytest.approx(entropies(weights)[1, 1], abs=0.006)
        assert ticks(numbers.get_yticklabels()) == ["layer 0", "layer 1"]
        assert len(small.images) == 1 + 6
        np.testing.assert_allclose(small.images[1].get_array(), weights[0, 0] / weights[0, 0].max())

    def test_layers_of_different_head_counts(self) -> None:
        picture = layer_overview(weights=[np.full((1, 2, 2), 0.5), np.full((2, 2, 2), 0.5)])
        assert np.isnan(np.ma.filled(picture.figure.axes[0].images[0].get_array(), np.nan)[0, 1])

    def test_entropy_of_empty_rows_is_left_out(self) -> None:
        assert entropies([[0.0, 0.0], [0.5, 0.5]]) == pytest.approx(np.log(2))


class TestLines:
    def test_each_weight_has_a_line_of_proportional_width(self) -> None:
        weights = np.random.default_rng(0).dirichlet(np.ones(6), size=6)
        lines = head_lines(weights, WORDS, least=0).figure.axes[0].collections[0]
        widths = np.asarray(lines.get_linewidths())
        strength = lines.get_colors()[:, 3]
        assert len(widths) == 36
        order = np.sort(weights.ravel())
        assert (np.diff(widths) > 0).all()
        assert (np.diff(strength) > 0).all()
        np.testing.assert_allclose((widths - 0.3) / 4.7, order / order[-1])

    def test_omitted_weights_are_mentioned(self) -> None:
        picture = head_lines([[0.995, 0.005], [0.5, 0.5]], ["a", "b"])
        assert len(picture.figure.axes[0].collections[0].get_linewidths()) == 3
        assert any("below 0.01 not drawn" in text for text in texts(picture))

    def test_heads_have_panels_of_their_own_and_one_query_may_be_chosen(self) -> None:
        picture = head_lines(traced(), heads=[0, 1], query=2, least=0)
        panels = [axes for axes in picture.figure.axes if axes.collections]
        assert [axes.get_title() for axes in panels] == ["head 0", "head 1"]
        assert all(len(axes.collections[0].get_linewidths()) == 6 for axes in panels)

    def test_cross_attention_of_two_sentences(self, tmp_path: Path) -> None:
        trace = traced(HAN, WORDS)
        picture = cross_attention(trace, head=1, least=0)
        lines, heat = picture.figure.axes[:2]
        assert [t.get_text() for t in lines.texts] == [*HAN, *WORDS, "queries", "keys"]
        assert len(lines.collections[0].get_linewidths()) == 36
        np.testing.assert_array_equal(heat.images[0].get_array(), trace.weights[1])
        assert ticks(heat.get_yticklabels()) == HAN
        assert ticks(heat.get_xticklabels()) == WORDS
        svg = picture.save(tmp_path / "x.svg").read_text(encoding="utf-8")
        assert all(f">{token}</text>" in svg for token in HAN + WORDS)


class TestArrows:
    def test_arrow_widths_follow_the_weights(self) -> None:
        query, keys = np.array([1.0, 0, 0]), np.array([[1.0, 0, 0], [0, 1.0, 0], [-1.0, 0, 0.5]])
        picture = query_arrows(query, keys, ["a", "b", "c"], query_token="q")
        axes = picture.figure.axes[0]
        weights = regard.attention.reference.attention(query, keys, keys, weights=True)[1]
        legend = [text.get_text() for text in axes.get_legend().get_texts()]
        order = np.argsort(-weights)
        assert legend == ["q", *(f"{'abc'[i]}  {weights[i]:.3f}" for i in order)]
        widths = [float(arrow.get_linewidths()[0]) for arrow in axes.collections]
        assert len(widths) == 4
        assert widths[:3] == sorted(widths[:3])
        assert widths[2] > 2 * widths[0]
        assert "d_k = 3" in texts(picture)

    def test_a_note_mentions_the_projection(self) -> None:
        picture = query_arrows(embed(["x"], 16)[0], embed(WORDS, 16), WORDS)
        assert any("d_k = 16, projected by PCA to 3" in text for text in texts(picture))

    def test_a_projection_keeps_vectors_of_three_dimensions(self) -> None:
        from regard.pictures.diagrams.query_arrows import project_to_space

        base = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 3)))[0]
        flat = np.random.default_rng(1).normal(size=(5, 3)) @ base.T
        points, kept = project_to_space(flat)
        assert kept == pytest.approx(1)
        np.testing.assert_allclose(points @ points.T, flat @ flat.T, atol=1e-12)
        assert (points[0] >= 0).all()


class TestFilter:
    def test_share_of_keys_and_weight_above_the_threshold(self) -> None:
        axes = information_filter([0.5, 0.3, 0.15, 0.05], list("abcd"), threshold=0.15).figure.axes[0]
        assert axes.get_title() == "3 of 4 keys pass 0.15 and carry 95 % of the weight"
        assert [bool(bar.get_hatch()) for bar in axes.patches] == [False, False, False, True]
        np.testing.assert_allclose([bar.get_height() for bar in axes.patches], [0.5, 0.3, 0.15, 0.05])
        assert axes.lines[0].get_ydata() == [0.15, 0.15]

    def test_the_default_threshold_is_the_uniform_weight(self) -> None:
        assert "threshold 0.25 = 1/S" in texts(information_filter([0.5, 0.3, 0.15, 0.05]))


class TestFlow:
    def test_boxes_show_the_shapes_of_the_trace(self) -> None:
        shown = texts(computation_flow(traced(mask=CAUSAL)))
        for shape in ("(L, D) = (6, 8)", "(H, L, d_k) = (2, 6, 4)", "(H, S, d_k) = (2, 6, 4)", "(H, L, S) = (2, 6, 6)"):
            assert shape in shown
        assert {"scores = Q · Kᵀ", "weights: rows add up to 1", "context = weights · V", "output"} <= set(shown)
        assert {"· W_q", "· W_k", "· W_v", "· W_o", "split", "merge", "× 0.5", "softmax over keys"} <= set(shown)

    def test_cross_attention_starts_from_two_sentences(self) -> None:
        picture = computation_flow(traced(HAN[:3], WORDS))
        assert "(S, D) = (6, 8)" in texts(picture)
        assert "no mask" in texts(picture)
        assert picture.title == "Attention: 3 queries on 6 keys, 2 heads of width 4"

    def test_flow_from_given_q_k_and_v(self) -> None:
        shown = texts(computation_flow(regard.trace(np.ones((2, 4)), np.ones((3, 4)), np.ones((3, 5)))))
        assert "(L, d_k) = (2, 4)" in shown
        assert "(S, d_v) = (3, 5)" in shown
        assert "output" not in shown


class TestGrid:
    def test_heatmap_of_one_square(self) -> None:
        weights = np.random.default_rng(0).dirichlet(np.ones(42), size=42)
        stones = np.zeros((6, 7), dtype=int)
        stones[5, 3], stones[5, 2] = 1, 2
        picture = attention_grid(weights, 6, 7, square=(5, 3), stones=stones)
        axes = picture.figure.axes[0]
        np.testing.assert_array_equal(axes.images[0].get_array(), weights[5 * 7 + 3].reshape(6, 7))
        rings = [patch for patch in axes.patches if hasattr(patch, "radius")]
        assert sorted(ring.center for ring in rings) == [(2, 5), (3, 5)]
        frame = next(patch for patch in axes.patches if not hasattr(patch, "radius"))
        assert frame.get_xy() == (2.5, 4.5)
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("column", "row")

    def test_heatmap_beside_an_image(self) -> None:
        picture = attention_grid(np.full(196, 1 / 196), 14, 14, square=(0, 0), image=np.zeros((28, 28, 3)))
        assert picture.figure.axes[0].get_title() == "image"

    @pytest.mark.parametrize(
        ("weights", "square", "message"),
        [
            (np.ones((42, 42)), None, "choose one with square="),
            (np.ones(41), None, r"must be \(42,\) or \(42, 42\) for 6 × 7 squares, got \(41,\)"),
            (np.ones((42, 42)), (6, 0), r"on 6 × 7 squares, got \(6, 0\)"),
        ],
    )
    def test_mistakes_are_named(self, weights: np.ndarray, square: tuple[int, int] | None, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            attention_grid(weights, 6, 7, square=square)


LONG = [f"token{i}" for i in range(40)]


@pytest.mark.parametrize("words", [WORDS[:3], HAN[:3], LONG], ids=["3", "han", "40"])
def test_nothing_is_cut_off(words: list[str]) -> None:
    trace = traced(words)
    row = trace.weights[0, 0]
    pictures = [weight_bars(trace, query=0), weight_heatmap(trace), information_filter(row, words)]
    pictures += [head_lines(trace.weights[:1], words)]
    if words is not LONG:  # the others do not depend on the count, and take their time
        q, k, _ = trace["split"].values
        pictures += [head_heatmaps(trace), cross_attention(trace), query_arrows(q[0, 0], k[0], words)]
        pictures += [computation_flow(trace)]
    for picture in pictures:
        picture.figure.draw_without_rendering()
        box = picture.figure.get_tightbbox()  # in inches, of all that is drawn
        width, height = picture.figure.get_size_inches()
        assert min(box.x0, box.y0) > -0.02, (picture.title, box)
        assert box.x1 < width + 0.02, (picture.title, box, width)
        assert box.y1 < height + 0.02, (picture.title, box, height)
