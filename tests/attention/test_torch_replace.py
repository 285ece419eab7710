"""`compat.replace` in models that are copied, compiled, exported, traced or vmapped."""

import copy
import io
import pickle
import subprocess
import sys
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from regard.compat import MultiheadAttention, replace
from support.torch_comparison import close, item, pair, right_padding, row, torch_may_warn


def test_replace_keeps_everything_but_the_class() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.MultiheadAttention(8, 2, dropout=0.1)
            self.again = self.first
            self.layers = nn.ModuleList([nn.MultiheadAttention(8, 2, dtype=torch.float64), MultiheadAttention(8, 2)])

    model = Shared().eval()
    model.layers.train()
    called = []
    model.first.register_forward_hook(lambda *_: called.append("hook"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names, parameters = list(model.state_dict()), list(model.parameters())

    assert replace(model) is model
    assert all(type(m) is MultiheadAttention for m in (model.first, *model.layers))
    assert model.first is model.again
    assert list(model.state_dict()) == names
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert (model.first.training, model.layers[0].training) == (False, True)
    before = model.first.in_proj_weight.clone()
    x = torch.randn(3, 2, 8)
    model.first(x, x, x)[0].square().sum().backward()
    optimizer.step()
    assert called == ["hook"]
    assert not torch.equal(model.first.in_proj_weight, before)
    hooks = len(model.first.out_proj._forward_pre_hooks)
    assert hooks == len(replace(model).first.out_proj._forward_pre_hooks) == 1


@pytest.mark.usefixtures("unchecked")
def test_replace_one_layer_and_leave_subclasses() -> None:
    class Theirs(nn.MultiheadAttention):
        pass

    alone = nn.MultiheadAttention(4, 2)
    assert replace(alone) is alone
    assert type(alone) is MultiheadAttention
    assert type(replace(nn.Sequential(Theirs(4, 2)))[0]) is Theirs
    with pytest.raises(TypeError, match=r"nn\.Module, got list"):
        replace([alone])  # type: ignore[type-var]


def test_replace_after_torch_nn_was_patched_with_our_class(monkeypatch: pytest.MonkeyPatch) -> None:
    before = nn.MultiheadAttention(4, 2)
    monkeypatch.setattr(nn, "MultiheadAttention", MultiheadAttention)
    assert type(replace(before)) is MultiheadAttention
    x = torch.randn(2, 3, 4)
    assert nn.MultiheadAttention(4, 2)(x, x, x)[0].shape == x.shape


def transformers() -> tuple[nn.Transformer, nn.Transformer]:
    with torch_may_warn():
        theirs = nn.Transformer(16, 4, 2, 2, 32, dropout=0.0, batch_first=True)
    return theirs, replace(copy.deepcopy(theirs))


@pytest.mark.parametrize("training", [True, False])
def test_replace_in_a_transformer(training: bool) -> None:
    theirs, ours = transformers()
    assert sum(type(m) is MultiheadAttention for m in ours.modules()) == 6
    source, target = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    padding = right_padding(2, 7, 0.5)
    call = {
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(5),
        "src_key_padding_mask": padding,
        "memory_key_padding_mask": padding,
    }
    theirs.train(training), ours.train(training)
    with torch.set_grad_enabled(training), torch_may_warn():
        close(ours(source, target, **call), theirs(source, target, **call), 2e-5)
    assert all(p.grad is None for p in ours.parameters())
    if training:
        ours(source, target, **call).sum().backward()
        assert all(p.grad.isfinite().all() for p in ours.parameters())


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_an_encoder_in_inference_calls_our_layer(nested: bool, norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, norm_first=norm_first)
    with torch_may_warn():  # of norm_first, with which there is no nesting
        encoder = replace(nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested))
    x, padding = torch.randn(3, 6, 16), right_padding(3, 6, 0.3)
    padding[1] = True
    expected = encoder(x, src_key_padding_mask=padding)
    encoder.eval()
    with (
        torch.inference_mode(),
        torch_may_warn(),
        mock.patch("torch._transformer_encoder_layer_fwd", side_effect=AssertionError("went round us")),
    ):
        found = encoder(x, src_key_padding_mask=padding)
        assert found.isfinite().all()
        close(found[~padding], expected[~padding])
        assert encoder(x, mask=row(6)).isfinite().all()


def test_a_new_out_proj_does_not_enable_torchs_fast_path() -> None:
    encoder = replace(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)).eval()
    encoder.self_attn.out_proj = nn.Linear(8, 8)
    with torch.no_grad():
        assert encoder(torch.randn(2, 5, 8), src_key_padding_mask=item(2, 5)).isfinite().all()


def test_nested_tensors_are_passed_to_torch() -> None:
    theirs, ours = (layer.eval() for layer in pair(8, 2, batch_first=True))
    with torch_may_warn(), torch.no_grad():
        x = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)])
        mine, its = (layer(x, x, x, need_weights=False)[0] for layer in (ours, theirs))
        close(mine.to_padded_tensor(0.0), its.to_padded_tensor(0.0))
    with pytest.raises(AssertionError, match="does not support NestedTensor outside of its fast path"):
        ours(x, x, x)


# -- where layers go ---------------------------------------------------------------------------------------


class Padded(nn.Module):
    """A layer with a padding mask, as a function of tensors."""

    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.layer, self.weights = MultiheadAttention(8, 2, batch_first=True), weights

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        output: Tensor = self.layer(x, x, x, key_padding_mask=padding, need_weights=self.weights)[0]
        return output


@pytest.fixture(params=[True, False], ids=["weights", "no weights"])
def padded(request: pytest.FixtureRequest) -> Padded:
    return Padded(request.param)


def test_copied_and_pickled(padded: Padded) -> None:
    file = io.BytesIO()
    torch.save(padded, file)
    file.seek(0)
    x, padding = torch.randn(2, 5, 8), item(2, 5)
    for twin in (copy.deepcopy(padded), pickle.loads(pickle.dumps(padded)), torch.load(file, weights_only=False)):
        assert type(twin.layer) is MultiheadAttention
        assert torch.equal(twin(x, padding), padded(x, padding))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("training", [True, False])
def test_compiled(padded: Padded, training: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(padded.train(training), fullgraph=True, backend="aot_eager")
    x, padding = torch.randn(2, 5, 8), item(2, 5)
    with torch.set_grad_enabled(training):
        close(compiled(x, padding), padded(x, padding))


@pytest.mark.usefixtures("unchecked")
def test_exported_for_any_size(padded: Padded) -> None:
    if torch.__version__.startswith("2.6."):
        pytest.skip("torch 2.6 exports the layer for a fixed batch size only (docs/compatibility.md)")
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    program = torch.export.export(
        padded.eval(), (torch.randn(2, 5, 8), item(2, 5)), dynamic_shapes={"x": free, "padding": free}
    )
    x, padding = torch.randn(3, 300, 8), right_padding(3, 300, 0.3)
    close(program.module()(x, padding), padded(x, padding))


@pytest.mark.usefixtures("unchecked")
def test_traced_for_any_size(padded: Padded) -> None:
    for training in (True, False):
        with torch_may_warn(), torch.set_grad_enabled(training):
            traced = torch.jit.trace(padded.train(training), (torch.randn(2, 5, 8), item(2, 5)))
        x, padding = torch.randn(3, 7, 8), right_padding(3, 7, 0.3)
        close(traced(x, padding), padded(x, padding))


SCRIPTED = """
import torch, regard.compat as compat
encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()
x = torch.randn(2, 5, 8)
its = encoder(x)
scripted = torch.jit.script(compat.replace(encoder))
torch.testing.assert_close(scripted(x), its)
assert type(encoder.layers[0].self_attn) is compat.MultiheadAttention
torch.jit.script(compat.MultiheadAttention(8, 2, kdim=4, vdim=4))
"""


def test_torchscript_compiles_torchs_layer() -> None:
    """Run in another process without the shape checker, because TorchScript does not support its wrappers."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPTED], check=True, timeout=120)


def test_vmap_and_gradients_of_torch_func(padded: Padded) -> None:
    x, padding = torch.randn(3, 2, 5, 8), torch.stack([item(2, 5), ~item(2, 5), item(2, 5)])
    each = torch.stack([padded(*both) for both in zip(x, padding, strict=True)])
    close(torch.func.vmap(padded)(x, padding), each)
    found = torch.func.grad(lambda p: torch.func.functional_call(padded, p, (x[0], padding[0])).sum())(
        dict(padded.named_parameters())
    )
    assert all(g.isfinite().all() for g in found.values())


def test_fx_treats_the_layer_as_a_leaf(padded: Padded) -> None:
    graph = torch.fx.symbolic_trace(padded)
    x, padding = torch.randn(2, 5, 8), item(2, 5)
    assert [node.target for node in graph.graph.nodes if node.op == "call_module"] == ["layer"]
    close(graph(x, padding), padded(x, padding))
