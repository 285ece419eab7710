"""Checks of what users of torch expect from a layer: device and dtype, reset, copies, graphs, derivatives."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Build = Callable[..., nn.Module]


def output(layer: Any, *inputs: Tensor) -> Tensor:
    """Return the output, or the first of several."""
    result = layer(*inputs)
    return result[0] if isinstance(result, tuple) else result


def check_factory_arguments(build: Build) -> None:
    """device= and dtype= apply to every parameter and to every buffer of floating point numbers."""
    layer = build(device="meta", dtype=torch.float64)
    tensors = [*layer.parameters(), *layer.buffers()]
    assert all(x.is_meta for x in tensors)
    assert all(x.dtype == torch.float64 for x in tensors if x.dtype.is_floating_point)
    built = build()
    assert {name: x.shape for name, x in built.state_dict().items()} == {
        name: x.shape for name, x in layer.state_dict().items()
    }
    assert all(x.device.type == "cpu" for x in built.parameters())
    assert all(x.dtype == torch.bfloat16 for x in build(dtype=torch.bfloat16).parameters())


def check_reset(build: Build, *inputs: Tensor) -> None:
    """A layer built on the meta device becomes usable, with the same distribution as a layer built on the CPU."""
    torch.manual_seed(0)
    layer, built = build(device="meta").to_empty(device="cpu"), build()
    with torch.no_grad():
        for x in (*layer.parameters(), *layer.buffers()):
            x.fill_(77)  # memory of to_empty may hold anything
    layer.reset_parameters()  # type: ignore[operator]
    tensors = {**dict(built.named_parameters()), **dict(built.named_buffers())}
    for name, x in {**dict(layer.named_parameters()), **dict(layer.named_buffers())}.items():
        expected = tensors[name]
        assert x.stride() == expected.stride(), name
        if not x.dtype.is_floating_point or torch.equal(expected, expected.flatten()[:1].expand_as(expected)):
            assert torch.equal(x, expected), name
        elif x.numel() < 64:
            assert x.abs().max() < 20, name
        else:
            assert 0.6 < x.std() / expected.std() < 1.6, name
    assert output(layer, *inputs).isfinite().all()


def check_copies(build: Build, *inputs: Tensor) -> None:
    """deepcopy, pickle and the state dict keep the outputs."""
    layer, other = build().eval(), build().eval()
    expected = output(layer, *inputs)
    other.load_state_dict(layer.state_dict())
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other):
        assert torch.equal(output(twin, *inputs), expected)


def check_trace(build: Build, *inputs: Tensor) -> None:
    """torch.jit.trace records a graph that also serves another batch size."""
    layer = build().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # shapes are compared with Python's operators
        traced = torch.jit.trace(layer, inputs)
    for args in (inputs, tuple(torch.cat([x, x[:1]]) for x in inputs)):
        torch.testing.assert_close(output(traced, *args), output(layer, *args))


def check_export(build: Build, *inputs: Tensor) -> None:
    """torch.export needs no operator of regard to run the result."""
    layer = build().eval()
    program = torch.export.export(layer, inputs, strict=False)
    torch.testing.assert_close(output(program.module(), *inputs), output(layer, *inputs))
    assert not [node for node in program.graph.nodes if "regard" in str(node.target)]


def check_forward_mode(build: Build, *inputs: Tensor) -> None:
    """A directional derivative of all parameters agrees with the gradient: u · (J t) = (Jᵀ u) · t."""
    layer = build(dtype=torch.float64).eval()
    inputs = tuple(x.double() if x.dtype.is_floating_point else x for x in inputs)
    parameters = {name: x.detach() for name, x in layer.named_parameters()}
    directions = {name: torch.randn_like(x) for name, x in parameters.items()}

    def function(parameters: dict[str, Tensor]) -> Tensor:
        return output(lambda *args: torch.func.functional_call(layer, parameters, args), *inputs)

    value, tangent = torch.func.jvp(function, (parameters,), (directions,))
    u = torch.randn_like(value)
    gradients = torch.func.vjp(function, parameters)[1](u)[0]
    along = sum((gradients[name] * directions[name]).sum() for name in parameters)
    torch.testing.assert_close((u * tangent).sum(), torch.as_tensor(along, dtype=torch.float64))
