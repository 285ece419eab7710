"""The evaluator: many positions, mirror images, many threads, mistakes."""

import pickle
import threading
import time

import numpy as np
import pytest
import torch

from regard.models import BoardNet, Evaluator
from support.board_networks import boards, settled


@pytest.fixture(scope="module")
def net() -> BoardNet:
    return settled("tiny", channels=48, score="columns")


def test_results_equal_the_network(net):
    planes = boards(11)
    policy, value, score = Evaluator(net, batch=4)(planes.numpy().astype(np.uint8))
    with torch.no_grad():
        wanted = net(planes)
    np.testing.assert_allclose(policy, wanted.policy.softmax(-1), atol=1e-5)
    np.testing.assert_allclose(value, wanted.value[:, 0], atol=1e-5)
    np.testing.assert_allclose(score, wanted.score, atol=1e-5)
    assert policy.dtype == value.dtype == score.dtype == np.float32


def test_only_legal_columns_have_probability(net):
    legal = np.array([[True, False] * 3 + [True], [False] * 7])
    policy = Evaluator(net, mirror=True)(boards(2).numpy(), legal).policy
    assert (policy[~legal] == 0).all()
    np.testing.assert_allclose(policy.sum(-1), [1, 0], atol=1e-6)


@pytest.mark.parametrize("columns", [6, 7])
def test_mirror_images_have_exactly_mirrored_evaluations(net, columns):
    evaluator, planes = Evaluator(net, mirror=True, batch=8), boards(21, 6, columns).numpy()
    planes[3] = (planes[3] + planes[3, ..., ::-1]).clip(0, 1)  # its own mirror image
    here, there = evaluator(planes), evaluator(planes[..., ::-1])
    assert np.array_equal(here.policy, there.policy[:, ::-1])
    assert np.array_equal(here.score, there.score[:, ::-1])
    assert np.array_equal(here.value, there.value)
    assert np.array_equal(here.policy[3], here.policy[3, ::-1])
    plain = Evaluator(net)
    one, other = plain(planes), plain(planes[..., ::-1])
    assert not np.allclose(one.policy, other.policy[:, ::-1], atol=1e-4)  # the network itself is not symmetric
    np.testing.assert_allclose(here.policy, (one.policy + other.policy[:, ::-1]) / 2, atol=1e-6)
    np.testing.assert_allclose(here.value, (one.value + other.value) / 2, atol=1e-6)


def test_every_thread_gets_its_own_result(net):
    """Games of two board sizes run in eight threads; each thread gets the results of its own positions."""
    evaluator = Evaluator(net, mirror=True)
    asked = [boards(1 + i % 3, 6, 7 if i % 2 else 5, seed=i).numpy() for i in range(48)]
    wanted = [evaluator(planes) for planes in asked]
    found: dict[int, object] = {}
    start = threading.Barrier(8)

    def game(number: int) -> None:
        start.wait()
        for i in range(number, len(asked), 8):
            found[i] = evaluator(asked[i])

    threads = [threading.Thread(target=game, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(asked)
    for i, planes in enumerate(asked):
        assert found[i].policy.shape == (len(planes), planes.shape[-1])
        np.testing.assert_allclose(found[i].policy, wanted[i].policy, atol=1e-5)
        np.testing.assert_allclose(found[i].value, wanted[i].value, atol=1e-5)


class Held(torch.nn.Module):
    """The network of an evaluator; its first call waits until it is released, then continues or raises."""

    def __init__(self, evaluator: Evaluator, fail: bool = False) -> None:
        super().__init__()
        self.inner, self.config, self.fail = evaluator.net, evaluator.net.config, fail
        self.batches: list[int] = []
        self.go = threading.Event()
        evaluator.net, evaluator.small_batches = self, None

    def forward(self, planes):
        self.batches.append(len(planes))
        self.go.wait(30)
        if self.fail:
            raise MemoryError("no room")
        return self.inner(planes)


def results_while_held(evaluator: Evaluator, held: Held, count: int) -> list[object]:
    """Return the results of `count` threads with 2 positions each that call while another call is held."""
    got: list[object] = []

    def ask() -> None:
        try:
            got.append(evaluator(boards(2).numpy()))
        except Exception as error:
            got.append(error)

    threads = [threading.Thread(target=ask) for _ in range(1 + count)]
    threads[0].start()
    while not held.batches:
        time.sleep(0.001)
    for thread in threads[1:]:
        thread.start()
    while len(evaluator._queue) < count:
        time.sleep(0.001)
    held.go.set()
    for thread in threads:
        thread.join()
    return got


def test_queued_requests_are_computed_together(net):
    evaluator = Evaluator(net)
    held = Held(evaluator)
    got = results_while_held(evaluator, held, 4)
    assert held.batches == [2, 8]
    assert [found.value.shape for found in got] == [(2,)] * 5


def test_a_failure_is_raised_in_every_thread_and_later_calls_work(net):
    evaluator = Evaluator(net)
    held = Held(evaluator, fail=True)
    got = results_while_held(evaluator, held, 3)
    assert sorted(type(error).__name__ for error in got) == ["MemoryError"] * 2 + ["RuntimeError"] * 2
    assert all(isinstance(error.__cause__, MemoryError) for error in got if isinstance(error, RuntimeError))
    evaluator.net = held.inner
    assert evaluator(boards(1).numpy()).value.shape == (1,)


def test_the_evaluator_has_its_own_weights():
    net = settled("tiny")
    evaluator, planes = Evaluator(net), boards(3).numpy()
    before = evaluator(planes).value
    with torch.no_grad():
        net.value.answer.bias.add_(1)
    assert np.array_equal(evaluator(planes).value, before)
    assert not np.allclose(Evaluator(net)(planes).value, before)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("planes", "legal", "message"),
    [
        (np.zeros((2, 6, 7)), None, r"\(N, 2, rows, columns\) .* got \(2, 6, 7\); one position needs"),
        (np.zeros((1, 3, 6, 7)), None, r"got \(1, 3, 6, 7\)"),
        (np.zeros((0, 2, 6, 7)), None, "N of at least 1"),
        (np.zeros((2, 2, 6, 7)), np.ones((2, 7)), r"\(2, 7\), got float64"),
        (np.zeros((2, 2, 6, 7)), np.ones((2, 6), bool), r"\(2, 7\), got bool \(2, 6\)"),
        (np.zeros((2, 2, 6, 7)), np.ones((3, 7), bool), r"\(2, 7\), got bool \(3, 7\)"),
    ],
)
def test_invalid_input_is_rejected(net, planes, legal, message):
    with pytest.raises(ValueError, match=message):
        Evaluator(net)(planes, legal)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("batch", [0, True, 2.5])
def test_invalid_batch_is_rejected(net, batch):
    with pytest.raises(ValueError, match=f"at least 1, got {batch}"):
        Evaluator(net, batch=batch)


def test_networks_and_evaluators_can_be_pickled(net):
    planes = boards(9)
    evaluator = Evaluator(net, mirror=True)
    other_net, other = pickle.loads(pickle.dumps((net, evaluator)))
    assert torch.equal(other_net(planes).policy, net(planes).policy)
    for a, b in zip(evaluator(planes.numpy()), other(planes.numpy()), strict=True):
        assert np.array_equal(a, b)
