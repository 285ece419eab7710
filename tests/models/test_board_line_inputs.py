"""Line planes of the input, and attention biases by direction and distance."""

from pathlib import Path

import pytest
import torch

from regard.models import BoardConfig, BoardNet, attention_pattern, load, save
from regard.models.board.input_planes import DIRECTIONS, OPEN_LINE_PLANES, LinePlanes
from regard.models.board.line_bias import MAX_DISTANCE, OFF_LINE, SAME_SQUARE, LineBias, bias_indices
from support.board_networks import seeded


def lines_through(r: int, c: int, direction: tuple[int, int], size: tuple[int, int], inarow: int):
    """The squares of every line of a direction that a square is in."""
    for first in range(inarow):
        line = [(r + (i - first) * direction[0], c + (i - first) * direction[1]) for i in range(inarow)]
        if all(0 <= y < size[0] and 0 <= x < size[1] for y, x in line):
            yield line


@pytest.mark.parametrize(("size", "inarow"), [((6, 7), 4), ((4, 5), 3), ((8, 9), 5), ((3, 3), 2)])
def test_line_planes_equal_a_slow_implementation(size, inarow):
    torch.manual_seed(0)
    for _ in range(12):
        squares = torch.randint(0, 3, size) * (torch.rand(size) < 0.8)
        planes = torch.stack([squares == 1, squares == 2])[None].float()
        shown = LinePlanes(inarow)(planes)[0]
        assert torch.equal(shown[:2], planes[0])
        taken = squares > 0
        wanted = torch.zeros_like(shown)
        for player in (0, 1):
            for at in torch.ones(size).nonzero().tolist():
                open_lines, nearly = 0, 0
                for number, direction in enumerate(DIRECTIONS):
                    for line in lines_through(*at, direction, size, inarow):
                        held = [int(squares[y, x]) for y, x in line]
                        own = held.count(player + 1)
                        if not taken[*at] and own == inarow - 1:
                            wanted[2 + player, *at] = 1
                        if 2 - player not in held:
                            open_lines, nearly = open_lines + 1, nearly + (own == inarow - 2)
                            fullest = wanted[6 + player * OPEN_LINE_PLANES + number]
                            fullest[*at] = max(fullest[*at], own / (inarow - 1))
                wanted[6 + player * OPEN_LINE_PLANES + 4, *at] = nearly / 4
                wanted[6 + player * OPEN_LINE_PLANES + 5, *at] = open_lines / 8
        torch.testing.assert_close(shown[2:4], wanted[2:4])
        torch.testing.assert_close(shown[6:], wanted[6:])
        below = torch.cat([taken[1:], torch.ones(1, size[1], dtype=torch.bool)])
        assert torch.equal(shown[4].bool(), ~taken & below)
        assert shown[5, -1].tolist() == [1.0] * size[1]
        assert (shown[5, 1:] + shown[5, :-1]).unique().tolist() == [1.0]


def test_a_network_with_line_planes_can_be_folded_and_saved(tmp_path: Path):
    net = seeded("tiny", lines=4, score="columns").eval()
    planes = (torch.rand(5, 2, 6, 7) < 0.3).float()
    said = net(planes)
    assert torch.allclose(net.for_inference()(planes).policy, said.policy, atol=1e-5)
    save(net, tmp_path)
    again = load(tmp_path)
    assert torch.equal(again(planes).policy, said.policy)
    assert net.stem.conv.in_channels == 18


@pytest.mark.parametrize(
    ("changes", "complaint"), [({"lines": 1}, "at least 2"), ({"lines": 4, "planes": 3}, "planes")]
)
def test_invalid_lines_are_rejected(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        BoardConfig(**changes)


def test_bias_indices_depend_on_direction_and_distance():
    between = bias_indices(6, 7)
    at = lambda r, c: r * 7 + c  # noqa: E731
    assert between.diagonal().unique().tolist() == [SAME_SQUARE]
    lines = attention_pattern("lines", 6, 7)
    assert torch.equal(between == OFF_LINE, ~lines)
    middle = at(3, 3)
    around = [between[middle, at(3 + r, 3 + c)].item() for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c]
    assert len(set(around)) == 8
    assert between[at(5, 0), at(4, 1)] == between[at(3, 2), at(2, 3)] != between[at(4, 1), at(5, 0)]
    assert len({between[at(0, 0), at(0, c)].item() for c in range(1, 7)}) == 6
    wide = bias_indices(2, 12)
    assert wide[0, MAX_DISTANCE] == wide[0, 11]


def test_only_trained_biases_change_the_output():
    torch.manual_seed(0)
    plain = BoardNet("tiny", sees=("all", "lines")).eval()
    biased = BoardNet("tiny", sees=("all", "lines"), bias="lines").eval()
    biased.load_state_dict(plain.state_dict(), strict=False)
    planes = torch.randn(3, 2, 6, 7)
    assert torch.allclose(plain(planes).policy, biased(planes).policy, atol=1e-6)
    biased.train()
    biased(planes).policy.square().sum().backward()
    gradient = biased.attention[0].bias.weight.grad
    assert gradient.abs().sum() > 0
    with torch.no_grad():
        biased.attention[0].bias.weight[:, SAME_SQUARE] = 5.0
    biased.eval()
    assert not torch.allclose(plain(planes).policy, biased(planes).policy, atol=1e-4)


def test_a_bias_is_added_to_the_scores():
    torch.manual_seed(0)
    layer = BoardNet("tiny", bias="lines").attention[0].eval()
    with torch.no_grad():
        layer.bias.weight.normal_()
    x = torch.randn(2, 32, 6, 7)
    added = layer.bias(6, 7, 4)
    normed = layer.norm(x)
    qkv = torch.nn.functional.conv2d(normed, layer.squares.qkv.weight, layer.squares.qkv.bias).flatten(2)
    q, k, v = (part.unflatten(1, (4, 8)).transpose(2, 3) for part in qkv.chunk(3, 1))
    weights = (q @ k.transpose(2, 3) / 8**0.5 + added).softmax(-1)
    merged = (weights @ v).transpose(2, 3).flatten(1, 2).unflatten(-1, (6, 7))
    by_hand = x + torch.nn.functional.conv2d(merged, layer.squares.out.weight, layer.squares.out.bias)
    assert torch.allclose(layer(x), by_hand, atol=1e-5)


def test_biases_are_kept_when_the_number_of_heads_changes(tmp_path: Path):
    torch.manual_seed(0)
    bias = LineBias(16)
    with torch.no_grad():
        bias.weight.copy_(torch.randn(4, bias.weight.shape[1]).repeat_interleave(4, 0))  # four heads
    four, eight, two = bias(6, 7, 4), bias(6, 7, 8), bias(6, 7, 2)
    assert torch.allclose(eight, four.repeat_interleave(2, 0))
    assert torch.allclose(two, four.unflatten(0, (2, 2)).mean(1))
    net = BoardNet("tiny", bias="lines").eval()
    net.set_heads(8)
    save(net, tmp_path)
    planes = torch.randn(2, 2, 6, 7)
    assert torch.allclose(load(tmp_path)(planes).policy, net(planes).policy)
    assert torch.allclose(net.for_inference()(planes).policy, net(planes).policy, atol=1e-5)
