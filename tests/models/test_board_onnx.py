"""Small batches by onnxruntime: the same results as the network, and the network itself where that is not possible."""

import copy
import sys

import numpy as np
import pytest
import torch

from regard.models import BoardNet, Evaluator
from regard.models.board.input_planes import LinePlanes
from regard.models.convert.board_to_onnx import MAX_BOARDS


def boards(count: int, rows: int = 6, columns: int = 7) -> torch.Tensor:
    stones = torch.randint(0, 3, (count, rows, columns), generator=torch.Generator().manual_seed(count))
    return torch.stack((stones == 1, stones == 2), 1).float()


def net(**changes: object) -> BoardNet:
    """Return a small network whose norms and answers differ from their initial values."""
    torch.manual_seed(0)
    result = BoardNet("tiny", **changes)  # type: ignore[arg-type]
    with torch.no_grad():
        result(boards(64))
        for head in (result.policy, result.value):
            head.answer.bias.normal_()
    return result.eval()


@pytest.mark.parametrize("changes", [{}, {"lines": 4, "score": "columns"}, {"score": "position", "attn_every": None}])
def test_onnxruntime_computes_the_network(changes: dict[str, object]) -> None:
    pytest.importorskip("onnx", reason="the extra onnx")
    pytest.importorskip("onnxruntime", reason="the extra onnx")
    trained = net(**changes)
    evaluator = Evaluator(trained)
    for planes in (boards(1), boards(8), boards(3, 5, 4), boards(MAX_BOARDS + 1)):
        legal = torch.rand(len(planes), planes.shape[3]) < 0.7
        legal[0] = True
        with torch.inference_mode():
            logits, value, score = trained(planes, legal)
        expected = [
            logits.softmax(1).nan_to_num().numpy(),
            value[:, 0].numpy(),
            score if score is None else score.numpy(),
        ]
        for actual, wanted in zip(evaluator(planes.numpy(), legal.numpy()), expected, strict=True):
            assert (actual is None) == (wanted is None)
            if wanted is not None:
                np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)
    assert evaluator.small_batches is not None
    assert len(evaluator.small_batches._graphs) == 2  # one for each board size
    again = copy.deepcopy(evaluator)
    assert np.array_equal(again(boards(1).numpy()).policy, evaluator(boards(1).numpy()).policy)


@pytest.mark.parametrize("changes", [{"sees": ("all", "lines")}, {"bias": "lines"}, {"norm": "group"}])
def test_networks_beyond_the_graph_are_computed_by_torch(changes: dict[str, object]) -> None:
    trained = net(**changes)
    evaluator = Evaluator(trained)
    assert evaluator.small_batches is None
    policy = evaluator(boards(2).numpy()).policy
    np.testing.assert_allclose(policy, trained(boards(2)).policy.detach().softmax(1), rtol=1e-4, atol=1e-5)


def test_without_onnxruntime_the_results_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    trained, planes = net(), boards(4).numpy()
    usual = Evaluator(trained)(planes)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    without = Evaluator(trained)(planes)
    np.testing.assert_allclose(usual.policy, without.policy, atol=1e-5)
    np.testing.assert_allclose(usual.value, without.value, atol=1e-5)


def test_positions_without_legal_columns_have_probabilities_0() -> None:
    legal = np.array([[True] * 7, [False] * 7])
    policy = Evaluator(net())(boards(2).numpy(), legal).policy
    np.testing.assert_allclose(policy.sum(1), [1, 0], atol=1e-6)


@pytest.mark.parametrize(("rows", "columns", "inarow"), [(6, 7, 4), (3, 9, 3), (5, 4, 5)])
def test_compiled_planes_equal_the_convolutions(rows: int, columns: int, inarow: int) -> None:
    pytest.importorskip("numba", reason="without numba the planes are always computed by convolutions")
    planes, layer = boards(20, rows, columns), LinePlanes(inarow)
    assert torch.equal(layer(planes), layer(planes.clone().requires_grad_()).detach())
