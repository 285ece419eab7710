"""Generation: equal tokens with and without cache, in compiled loops and modules, alone and in batches."""

import itertools

import pytest
import torch

from regard.models import generate, stream
from regard.models.generation.one_token_model_step import CompiledDecoder
from regard.models.generation.prompt import read_prompt
from regard.models.generation.sampling import Sampling
from regard.models.generation.token_scorer import MIN_COMPILED_TOKENS, new_scorer
from support.small_models import VARIANTS, decoder, recurrent, seq2seq, tokens

PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9]]
SOURCES = [[3, 4], [5, 6, 7, 8], [1]]

WRITERS = {
    **{f"decoder, {name}": (lambda c=c: decoder(**c).double(), False) for name, c in VARIANTS.items()},
    **{f"seq2seq, {name}": (lambda c=c: seq2seq(**c).double(), True) for name, c in VARIANTS.items()},
    "recurrent": (lambda: recurrent(attention=False).double(), True),
    "recurrent with attention": (lambda: recurrent(attention=True).double(), True),
}


@pytest.fixture(params=WRITERS)
def writer(request):
    build, has_source = WRITERS[request.param]
    return build(), has_source


def lists(rows):
    return [row.tolist() for row in rows]


@pytest.mark.parametrize("beams", [1, 3])
def test_cache_and_batch_do_not_change_the_tokens(writer, beams) -> None:
    model, has_source = writer
    options = {"new_tokens": 12, "beams": beams, "stop": 7}
    source = {"source": SOURCES} if has_source else {}
    together = lists(generate(model, PROMPTS, **source, **options))
    assert together == lists(generate(model, PROMPTS, **source, **options, cache=False))
    alone = [
        generate(model, prompt, **({"source": SOURCES[row]} if has_source else {}), **options)[0].tolist()
        for row, prompt in enumerate(PROMPTS)
    ]
    assert together == alone


def test_sampled_tokens_are_the_same_with_and_without_cache(writer) -> None:
    model, has_source = writer
    options = {"new_tokens": 12, "temperature": 1.3, "top_k": 20, **({"source": SOURCES} if has_source else {})}
    first, second, third = (
        lists(generate(model, PROMPTS, generator=torch.Generator().manual_seed(seed), cache=cache, **options))
        for seed, cache in ((0, True), (0, False), (1, True))
    )
    assert first == second
    assert first != third


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("with_source", [False, True], ids=["decoder", "seq2seq"])
@pytest.mark.parametrize("rows", [1, 6])
def test_compiled_decoder_gives_the_scores_of_the_modules(changes, with_source, rows) -> None:
    model = seq2seq(**changes) if with_source else decoder(**changes)
    text, source = tokens(rows, 30), tokens(rows, 8, seed=2)
    with torch.inference_mode():
        cache = model.new_cache(rows, 30)
        memory = model.encode(source) if with_source else None
        _ = model.decode(text[:, :10], memory, cache=cache) if with_source else model(text[:, :10], cache=cache)
        step = CompiledDecoder(model, cache)
        scores = torch.stack([step(text[:, n]) for n in range(10, 30)], 1)
        expected = (model.decode(text, memory) if with_source else model(text))[:, 10:]
    torch.testing.assert_close(scores, expected, rtol=0, atol=2e-5)
    assert cache.length == 30


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("new_tokens", [10, MIN_COMPILED_TOKENS], ids=["modules", "compiled"])
def test_rows_of_different_lengths_have_the_scores_of_each_row_alone(changes, new_tokens) -> None:
    model = seq2seq(**changes)
    cpu = torch.device("cpu")
    with torch.inference_mode():
        prompt, source = read_prompt("prompt", PROMPTS, None, cpu), read_prompt("source", SOURCES, None, cpu)
        scorer = new_scorer(model, prompt, source, new_tokens, cache=True)
        scorer.scores(None)
        first = scorer.scores(torch.tensor([3, 1, 2]))
        index = torch.tensor([2, 0, 0, 1])
        scorer.reorder(index)  # as beam search does: rows change places, and their number changes
        second = scorer.scores(torch.tensor([9, 8, 7, 6]))
        assert isinstance(scorer.decoder, CompiledDecoder) == (new_tokens == MIN_COMPILED_TOKENS)
        for row, token in enumerate((3, 1, 2)):
            alone = model(torch.tensor([SOURCES[row]]), torch.tensor([[*PROMPTS[row], token]]))[0, -1]
            torch.testing.assert_close(first[row], alone, rtol=0, atol=2e-5)
        for row, (before, token) in enumerate(zip(index.tolist(), (9, 8, 7, 6), strict=True)):
            target = torch.tensor([[*PROMPTS[before], (3, 1, 2)[before], token]])
            alone = model(torch.tensor([SOURCES[before]]), target)[0, -1]
            torch.testing.assert_close(second[row], alone, rtol=0, atol=2e-5)


@pytest.mark.parametrize("options", [{}, {"beams": 3}])
def test_compiled_loops_generate_the_tokens_of_the_modules(options) -> None:
    model = decoder(**VARIANTS["modern"])
    compiled = lists(generate(model, PROMPTS, new_tokens=MIN_COMPILED_TOKENS, **options))
    assert compiled == lists(generate(model, PROMPTS, new_tokens=MIN_COMPILED_TOKENS, cache=False, **options))


def test_hooked_or_replaced_modules_are_called() -> None:
    model, calls = decoder(), []
    model.layers[0].feed.register_forward_hook(lambda *_: calls.append(1))
    generate(model, [1, 2], new_tokens=4)
    assert len(calls) == 4

    class Other(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * 0 + 1

    plain = decoder()
    plain.layers[1].feed.down = Other(plain.config.inner, 32)
    assert (
        generate(plain, [1, 2], new_tokens=6)[0].tolist()
        == generate(plain, [1, 2], new_tokens=6, cache=False)[0].tolist()
    )


def test_a_stream_is_what_generate_returns(writer) -> None:
    model, has_source = writer
    options = {"new_tokens": 9, "stop": 3, **({"source": SOURCES[0]} if has_source else {})}
    assert list(stream(model, PROMPTS[0], **options)) == generate(model, PROMPTS[0], **options)[0].tolist()


def test_a_stream_yields_each_token_at_once_and_restores_the_modes() -> None:
    model = decoder().train()
    steps = []
    model.layers[0].register_forward_hook(lambda *_: steps.append(model.training))
    found = stream(model, [1, 2], new_tokens=5)
    assert steps == []
    next(found)
    assert steps == [False]
    assert model.training
    assert not torch.is_inference_mode_enabled()
    next(found)
    assert len(steps) == 2


def test_a_row_ends_before_its_stop_token() -> None:
    model = decoder()
    free = generate(model, PROMPTS, new_tokens=20)
    stop = int(free[0][5])
    ended = generate(model, PROMPTS, new_tokens=20, stop=[stop, 1000])
    for row, whole in zip(ended, free, strict=True):
        cut = whole.tolist().index(stop) if stop in whole.tolist() else 20
        assert row.tolist() == whole[:cut].tolist()
    assert len(ended[0]) <= 5


def best_by_exhaustive_search(model, prompt, new_tokens, stop, penalty):
    """Score every possible text and return the best."""
    best, vocabulary = (-float("inf"), None), model.config.vocabulary
    for text in itertools.product(range(vocabulary), repeat=new_tokens):
        scores = model(torch.tensor([[*prompt, *text]]))[0].log_softmax(-1)
        total = 0.0
        for n, token in enumerate(text):
            total += float(scores[len(prompt) + n - 1, token])
            if token == stop or n == new_tokens - 1:
                best = max(best, (total / (n + 1) ** penalty, text[:n] if token == stop else text[: n + 1]))
                break
    return list(best[1]), best[0]


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("stop", [None, 2])
@torch.no_grad()
def test_enough_beams_find_the_best_text_of_all(penalty, stop) -> None:
    model = decoder(vocabulary=4, d_model=16, layers=1).double()
    expected, _ = best_by_exhaustive_search(model, [1, 3], 4, stop, penalty)
    found = generate(model, [1, 3], new_tokens=4, beams=64, stop=stop, length_penalty=penalty)[0]
    assert found.tolist() == expected


def test_one_beam_is_greedy_and_more_are_at_least_as_likely() -> None:
    model = decoder().double()

    def likelihood(text):
        scores = model(torch.tensor([[1, 2, *text]]))[0].log_softmax(-1)
        return sum(float(scores[1 + n, token]) for n, token in enumerate(text))

    with torch.no_grad():
        greedy, wide = (generate(model, [1, 2], new_tokens=8, beams=n)[0].tolist() for n in (1, 8))
        assert likelihood(wide) >= likelihood(greedy) - 1e-9


def test_temperature_top_k_and_top_p_by_hand() -> None:
    scores = torch.tensor([[0.1, 0.5, 0.05, 0.35]]).log()
    torch.testing.assert_close(Sampling(1.0).probabilities(scores), scores.exp())
    torch.testing.assert_close(Sampling(0.5).probabilities(scores), scores.exp() ** 2 / (scores.exp() ** 2).sum())
    torch.testing.assert_close(Sampling(1.0, top_k=2).probabilities(scores), torch.tensor([[0, 0.5, 0, 0.35]]) / 0.85)
    torch.testing.assert_close(Sampling(1.0, top_p=0.8).probabilities(scores), torch.tensor([[0, 0.5, 0, 0.35]]) / 0.85)
    assert Sampling(1.0, top_p=0.01).probabilities(scores).tolist() == [[0, 1, 0, 0]]
    torch.testing.assert_close(
        Sampling(1.0, top_k=3, top_p=0.95).probabilities(scores), torch.tensor([[0.1, 0.5, 0, 0.35]]) / 0.95
    )


def test_samples_follow_the_probabilities() -> None:
    scores = torch.tensor([0.1, 0.5, 0.05, 0.35]).log().expand(20000, 4)
    drawn = Sampling(1.0, top_k=3)(scores, torch.Generator().manual_seed(0)).bincount(minlength=4) / 20000
    torch.testing.assert_close(drawn, torch.tensor([0.1, 0.5, 0.0, 0.35]) / 0.95, rtol=0, atol=0.012)
    assert drawn[2] == 0


def test_sampled_tokens_follow_the_probabilities_of_the_model() -> None:
    model = decoder(vocabulary=6)
    with torch.no_grad():
        expected = model(torch.tensor([[1, 2]]))[0, -1].softmax(-1)
    rows = generate(model, torch.tensor([[1, 2]]).expand(8000, 2), new_tokens=1, temperature=1.0,
                    generator=torch.Generator().manual_seed(0))  # fmt: skip
    drawn = torch.cat(rows).bincount(minlength=6) / 8000
    torch.testing.assert_close(drawn, expected, rtol=0, atol=0.02)


def test_prompts_in_every_form() -> None:
    model = decoder()
    expected = lists(generate(model, PROMPTS, new_tokens=4))
    padded = torch.full((3, 6), 39)
    for row, prompt in enumerate(PROMPTS):
        padded[row, : len(prompt)] = torch.tensor(prompt)
    assert lists(generate(model, padded, lengths=torch.tensor([3, 1, 5]), new_tokens=4)) == expected
    assert lists(generate(model, [torch.tensor(prompt) for prompt in PROMPTS], new_tokens=4)) == expected
    assert lists(generate(model, torch.tensor(PROMPTS[0]), new_tokens=4)) == expected[:1]
    assert lists(generate(model, PROMPTS, new_tokens=0)) == [[], [], []]
    assert generate(model, torch.empty(0, 3, dtype=torch.int64), new_tokens=4) == []


def test_the_mode_of_the_model_is_left_as_it_was() -> None:
    model = decoder(dropout=0.5).train()
    model.layers[0].eval()
    first, second = (generate(model, PROMPTS, new_tokens=5) for _ in range(2))
    assert lists(first) == lists(second)
    assert [model.training, model.layers[0].training, model.layers[1].feed.training] == [True, False, True]
    assert all(not row.is_inference() for row in first)
    model.loss(tokens(1, 5), tokens(1, 5)).backward()  # training still works after generation


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions(dtype) -> None:
    rows = generate(decoder(**VARIANTS["modern"]).to(dtype), PROMPTS, new_tokens=MIN_COMPILED_TOKENS)
    assert [len(row) for row in rows] == [MIN_COMPILED_TOKENS] * 3


WRONG = {
    "too long": ([1] * 150, {"new_tokens": 11}, "150 tokens and 11 new ones exceed .* 160; .* at most 10"),
    "empty": ([[1], []], {"new_tokens": 1}, "row 1 of prompt is empty"),
    "nothing": ([], {"new_tokens": 1}, "row 0 of prompt is empty"),
    "unknown": ([99], {"new_tokens": 1}, "token ids must be in 0 … 39"),
    "new_tokens": ([1], {"new_tokens": -1}, "new_tokens must be a whole number of at least 0"),
    "temperature": ([1], {"new_tokens": 1, "temperature": -1.0}, "temperature must be 0"),
    "nan": ([1], {"new_tokens": 1, "temperature": float("nan")}, "temperature must be 0"),
    "top_k": ([1], {"new_tokens": 1, "temperature": 1.0, "top_k": 0}, "top_k must be a whole number"),
    "top_p": ([1], {"new_tokens": 1, "temperature": 1.0, "top_p": 1.5}, "top_p must be more than 0 and at most 1"),
    "greedy top_k": ([1], {"new_tokens": 1, "top_k": 5}, "pass temperature=1.0"),
    "beams": ([1], {"new_tokens": 1, "beams": 0}, "beams must be a whole number of at least 1"),
    "drawn beams": ([1], {"new_tokens": 1, "beams": 2, "temperature": 1.0}, "sampling needs beams=1"),
    "penalty": ([1], {"new_tokens": 1, "beams": 2, "length_penalty": -1.0}, "length_penalty must not be negative"),
    "source": ([1], {"new_tokens": 1, "source": [1]}, "a Decoder has no source"),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_arguments_are_rejected(case) -> None:
    prompt, options, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        generate(decoder(), prompt, **options)


@pytest.mark.usefixtures("unchecked")
def test_other_invalid_arguments_are_rejected() -> None:
    with pytest.raises(TypeError, match="only Decoder, Seq2Seq and Recurrent can generate, got Linear"):
        generate(torch.nn.Linear(2, 2), [1], new_tokens=1)
    with pytest.raises(ValueError, match="Seq2Seq needs a source"):
        generate(seq2seq(), [1], new_tokens=1)
    with pytest.raises(ValueError, match="same number of rows, got 1 and 2"):
        generate(seq2seq(), [1], source=[[1], [2]], new_tokens=1)
    with pytest.raises(TypeError, match="prompt must be token ids"):
        generate(decoder(), ["a", "b"], new_tokens=1)
    with pytest.raises(TypeError, match="prompt must be token ids"):
        generate(decoder(), "hello", new_tokens=1)
    with pytest.raises(ValueError, match="stream takes one prompt, got 3"):
        stream(decoder(), PROMPTS, new_tokens=1)
