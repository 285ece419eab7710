"""What regard.intervene and regard.patching refuse, and what their messages say."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.interventions import ablate, knockout, patch, reweight
from tests.support.edited_attention import Layer

pytestmark = pytest.mark.usefixtures("unchecked")


class Model(nn.Module):
    def __init__(self, way: str = "sdpa", **options: Any) -> None:
        super().__init__()
        self.first_attention, self.second_attention = Layer(way, **options), Layer(way, **options)
        self.mlp = nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.second_attention(self.first_attention(x)))


def seen_of(model: nn.Module, x: Tensor, **options: Any) -> Any:
    with torch.no_grad(), regard.watch(model, **options) as seen:
        model(x)
    return seen


X = torch.randn(2, 6, 12, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("interventions", "message"),
    [
        ({"first_atention": ablate()}, "matches no module of Model.*"),
        ({}, "expects a dict from patterns"),
        (ablate(), "expects a dict from patterns"),
        ({3: ablate()}, "must be a string, got 3"),
        ({"*": "zero"}, "must come from regard.interventions or be a function of a call, got 'zero'"),
        (
            {"mlp": ablate()},
            "'mlp' matches modules, but none of them made an attention call.*these did: first_attention",
        ),
        (
            {"*": ablate(heads=4)},
            r"ablate for '\*': there is no head 4 in 'first_attention', which has 4 heads \(0 to 3\)",
        ),
        ({"*": ablate(heads=[-5])}, "there is no head -5"),
        ({"*": ablate(batch=2)}, "there is no batch item 2 in 'first_attention', which has 2 batch items"),
        ({"*": ablate(queries=6)}, "there is no query 6"),
        ({"*": knockout(keys=[0, 9])}, "knockout for .*there is no key 9"),
        ({"*": reweight(keys=slice(7, 9), by=2)}, r"reweight for .*keys=slice\(7, 9, None\) selects nothing of 6"),
        (
            {"*": lambda call: torch.ones(3)},
            r"returned a tensor \(3,\).*its outputs are \(2, 4, 6, 3\) and its weights",
        ),
        ({"*": lambda call: {"weight": call.output}}, "must return None, a tensor, or a dict"),
        (
            {"*": lambda call: {"output": call.output, "head": 1}},
            r"returned output \(2, 4, 6, 3\).*expected \(2, 1, 6, 3\)",
        ),
        ({"*": lambda call: {"weights": 3}}, "returned weights int"),
        ({"*": lambda call: call.weights(head=7)}, "head: index 7 is out of range, there are 4"),
    ],
)
def test_wrong_interventions(interventions: Any, message: str) -> None:
    model = Model()
    with pytest.raises((ValueError, TypeError), match=message), regard.intervene(model, interventions):
        model(X)


def test_the_closest_attention_modules_are_suggested() -> None:
    with pytest.raises(ValueError, match=r"modules that attend: .*'first_attention'|no module"):
        regard.intervene(Model(), {"first_atention": ablate()}).__enter__()
    model = nn.Sequential(nn.TransformerEncoderLayer(12, 2), nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"modules that attend: '0.self_attn'"):
        regard.intervene(model, {"1.self_attn": ablate()}).__enter__()
    with pytest.raises(TypeError, match=r"expects an nn.Module, got function"):
        regard.intervene(lambda x: x, {"*": ablate()}).__enter__()


def test_a_shared_module_is_named_by_its_first_path() -> None:
    model = Model()
    model.second_attention = model.first_attention
    with pytest.raises(ValueError, match="shared under another path; use 'first_attention'"):
        regard.intervene(model, {"second_attention": ablate()}).__enter__()


@pytest.mark.parametrize("way", ["sdpa", "attend", "sinks", "eager"])
@pytest.mark.parametrize("length", [6, 30])
def test_a_row_that_would_be_empty(way: str, length: int) -> None:
    model, x = Layer(way, causal=True), torch.randn(2, length, 12)
    message = "hides every key that query 0 of head 1 sees in 'the model' .batch item 0; 4 such rows.*empty='zero'"
    with (
        torch.no_grad(),
        pytest.raises(ValueError, match=message),
        regard.intervene(model, {"*": knockout(keys=slice(0, 2), heads=1)}),
    ):
        model(x)
    with torch.no_grad(), regard.intervene(model, {"*": knockout(keys=slice(0, 2), heads=1, empty="zero")}):
        with regard.watch(model) as seen:
            model(x)
        assert (seen[0].weights(head=1, queries=[0, 1]) == 0).all()
        assert (seen[0].output[:, 1, :2] == 0).all()
        assert (seen[0].output[:, 1, 2:] != 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_whose_mask_is_the_smallest_number_counts_as_empty(dtype: torch.dtype) -> None:
    """Models write the smallest number for −inf."""
    layer = Layer(bias=torch.full((6, 6), torch.finfo(dtype).min, dtype=dtype).triu(1)).to(dtype)
    with (
        pytest.raises(ValueError, match="hides every key that query 0"),
        regard.intervene(layer, {"*": knockout(keys=0)}),
    ):
        layer(X.to(dtype))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: reweight(keys=0, by=-1.0), "by must be a number of at least 0, got -1.0"),
        (lambda: reweight(keys=0, by=math.inf), "by must be a number"),
        (lambda: reweight(keys=0, by="2"), "by must be a number"),
        (lambda: reweight(keys=None, by=2), "keys must be given"),
        (lambda: knockout(keys=0, empty="mean"), "empty must be 'error' or 'zero'"),
        (lambda: knockout(keys=[]), "keys selects nothing"),
        (lambda: knockout(keys=0.5), "keys must be an index, a slice or a list of indices, got 0.5"),
        (lambda: knockout(keys=True), "keys must be an index"),
        (lambda: knockout(keys=torch.ones(3, dtype=torch.bool)), "keys must be an index"),
        (lambda: ablate(heads="all"), "heads must be an index"),
        (lambda: ablate(to="median"), "to must be 'zero', 'mean' or a recording"),
        (lambda: patch(3), "patch expects a recording of another run"),
        (lambda: patch(regard.watching.Recording(nn.Identity()), "keys"), "what must be 'weights', 'q'"),
        (
            lambda: patch(regard.watching.Recording(nn.Identity()), "k", queries=0),
            r"patch\(what='k'\) takes keys=, not",
        ),
        (
            lambda: patch(regard.watching.Recording(nn.Identity()), "q", keys=0),
            r"patch\(what='q'\) takes queries=, not",
        ),
    ],
)
def test_wrong_arguments(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_selections_may_be_tensors_and_ranges() -> None:
    assert knockout(keys=torch.tensor([1, 2])) == knockout(keys=range(1, 3)) == knockout(keys=(1, 2))


def test_the_mean_over_a_batch_of_one() -> None:
    model = Model()
    with pytest.raises(ValueError, match=r"the mean over a batch of 1.*to=recording"):  # noqa: SIM117
        with regard.intervene(model, {"*": ablate(to="mean")}):
            model(X[:1])


def test_patches_that_do_not_fit() -> None:
    model = Model()
    other = seen_of(model, X)
    longer = seen_of(model, torch.randn(2, 8, 12))
    narrow = seen_of(model, X, only="first_attention")
    statistics = seen_of(model, X, keep="statistics")
    eager = Model("eager")
    cases = [
        (
            model,
            patch(longer),
            r"weights of the other run .*\(2, 4, 8, 8\).*needs \(2, 4, 6, 6\); record the other run",
        ),
        (model, patch(longer, "output"), r"the output of the other run .*\(2, 4, 8, 3\)"),
        (model, patch(longer, "k"), r"the k of the other run .*\(2, 4, 8, 3\)"),
        (model, patch(seen_of(model, torch.randn(3, 6, 12))), "with the same batch size or 1"),
        (model, patch(narrow), "no attention call of 'second_attention'; it has calls of: first_attention"),
        (model, ablate(to=narrow), "no attention call of 'second_attention'"),
        (model, patch(statistics), "keep='statistics'"),
        (eager, patch(other, "q"), "is eager attention, whose queries and keys are not known"),
    ]
    for target, intervention, message in cases:
        with pytest.raises(ValueError, match=message):  # noqa: SIM117
            with torch.no_grad(), regard.intervene(target, {"*": intervention}):
                target(X)


class Unusual(nn.Module):
    """Attention in forms whose weights cannot be changed."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form, self.heads = form, 1

    def forward(self, x: Tensor) -> Tensor:
        scores = x @ x.transpose(1, 2) / 3
        if self.form == "divided later":
            exponentials = scores.exp()
            return (exponentials @ x) / exponentials.sum(-1, keepdim=True)
        if self.form == "elementwise":
            return (scores.softmax(-1)[..., None] * x[:, None]).sum(2)
        return torch.cat([part @ x[:, 3 * i : 3 * i + 3] for i, part in enumerate(scores.softmax(-1).chunk(2, -1))], 1)


@pytest.mark.parametrize(
    ("form", "reason"),
    [("divided later", "cannot be changed"), ("elementwise", "cannot be changed"), ("in pieces", "attends in pieces")],
)
def test_attention_that_cannot_be_changed_is_reported(form: str, reason: str) -> None:
    model = Unusual(form)
    with pytest.raises(RuntimeError, match=f"was not changed: the model: .*{reason}"):  # noqa: SIM117
        with torch.no_grad(), regard.intervene(model, {"*": knockout(keys=0)}):
            model(X)


def test_unseen_attention_is_reported() -> None:
    class CustomAttention(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.roll(1, 1)

    model = nn.Sequential(CustomAttention(), Layer())
    with pytest.raises(RuntimeError, match="0: CustomAttention ran, but made no attention call that was seen"):  # noqa: SIM117
        with torch.no_grad(), regard.intervene(model, {"*": ablate(0)}):
            model(X)
    with torch.no_grad(), regard.intervene(model, {"1": ablate(0)}):
        model(X)


def test_heads_before_batch_items_in_one_axis() -> None:
    class HeadsFirst(nn.Module):
        num_heads = 4

        def forward(self, x: Tensor) -> Tensor:
            folded = torch.cat(x.chunk(4, -1))  # (H · B, L, d)
            out = (folded @ folded.transpose(1, 2)).softmax(-1) @ folded
            return torch.cat(out.chunk(4), -1)

    model = HeadsFirst()
    with pytest.raises(RuntimeError, match=r"holds heads before batch items.*run a batch of 1"):  # noqa: SIM117
        with torch.no_grad(), regard.intervene(model, {"*": ablate(0)}):
            model(X)
    with torch.no_grad(), regard.intervene(model, {"*": ablate(0)}):
        assert (model(X[:1])[..., :3] == 0).all()


def test_nested_tensors_and_vmap_are_refused() -> None:
    layer = Layer()
    with pytest.raises(NotImplementedError, match=r"inside torch.vmap"):  # noqa: SIM117
        with regard.intervene(layer, {"*": ablate(0)}):
            torch.vmap(layer)(torch.randn(3, 2, 6, 12))


def test_an_error_of_the_model_is_not_replaced() -> None:
    model = Model()

    def fail(call: Any) -> None:
        raise KeyError

    with pytest.raises(KeyError), regard.intervene(model, {"mlp": ablate(0), "*": fail}):
        model(X)


def test_nothing_is_required_of_a_model_that_does_not_run() -> None:
    with regard.intervene(Model(), {"mlp": ablate(0)}):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, X + 1, lambda out: out), "metric must return one finite number"),
        ((X, X + 1, lambda out: math.nan), "metric must return one finite number"),
        ((X, X, lambda out: out.sum()), "for both clean and corrupted, so that there is no difference"),
        ((X, X[:, :5], lambda out: out.sum()), "must make the same attention calls"),
    ],
)
def test_patching_that_cannot_work(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regard.patching(Model(), *arguments)
    with pytest.raises(ValueError, match="by must be 'head' or 'head, query', got 'layer'"):
        regard.patching(Model(), X, X + 1, lambda out: out.sum(), by="layer")
