"""The board network: its presets, its outputs on any board, what its heads see, heads that change, folded norms."""

import copy
from dataclasses import asdict

import pytest
import torch
from torch import nn

import regard
from regard.models import PRESETS, BoardConfig, BoardNet, HeadSchedule, attention_pattern, load, save
from regard.models.board.attention_block import BoardAttention
from support.board_networks import boards, seeded, settled

SIZES = [(4, 5), (6, 7), (8, 9)]


# -- presets and configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "channels", "heads", "attn_every", "layers", "attentions"),
    [
        ("high", 144, 24, 2, 24, 12),
        ("balanced", 144, 12, 3, 14, 4),
        ("light", 144, 6, 4, 10, 2),
        ("small", 64, 8, 2, 5, 2),
        ("tiny", 32, 4, 4, 4, 1),
    ],
)
def test_presets_have_the_documented_sizes(preset, channels, heads, attn_every, layers, attentions):
    with torch.device("meta"):
        net = BoardNet(preset)
    c = net.config
    assert (c.channels, c.heads, c.attn_every, c.layers) == (channels, heads, attn_every, layers)
    assert len(net.blocks) == layers
    assert len(net.attention) == attentions == c.attentions
    assert all(layer.squares.heads == heads for layer in net.attention)


def test_light_is_the_default():
    with torch.device("meta"):
        assert BoardNet().config == BoardConfig.preset("light")


def test_parameter_count_by_hand():
    c, p, h, v = 32, 2, 32, 64
    unit = 9 * c * c + 2 * c
    attention = 2 * c + (3 * c * c + 3 * c) + (c * c + c)
    policy, value = (c * h + 2 * h + (pooled * h * v + v) + (v + 1) for pooled in (4, 2))
    total = (9 * p * c + 2 * c) + 4 * 2 * unit + attention + policy + value
    assert sum(x.numel() for x in BoardNet("tiny").parameters()) == total


def test_number_of_parameters_of_small():
    with torch.device("meta"):
        count = sum(x.numel() for x in BoardNet("small").parameters())
    assert 0.4e6 < count < 0.45e6


@pytest.mark.parametrize(("preset", "low", "high"), [("high", 16, 32), ("balanced", 12, 16), ("light", 8, 12)])
def test_a_preset_has_a_range_of_depths(preset, low, high):
    for layers in (low, high):
        assert BoardConfig.preset(preset, layers=layers).layers == layers
    for layers in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"'{preset}' has {low} to {high} layers, got {layers}"):
            BoardNet(preset, layers=layers)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"channels": 128, "heads": 24}, ValueError, "24 heads for 128 channels.* 16 .* 32"),
        ({"layers": 0}, ValueError, "layers must be at least 1, got 0"),
        ({"layers": 8.0}, TypeError, "layers must be a whole number, got 8.0"),
        ({"attn_every": 0}, ValueError, "attn_every must be at least 1, got 0"),
        ({"attn_every": 11}, ValueError, "attn_every=11 with 10 layers .* from 1 to 10"),
        ({"norm": "layer"}, ValueError, "norm must be one of 'batch', 'group', 'none', got 'layer'"),
        ({"score": True}, ValueError, "score must be one of"),
        ({"planes": -1}, ValueError, "planes must be at least 1, got -1"),
        ({"value_hidden": True}, TypeError, "value_hidden must be a whole number"),
        ({"sees": ("all", "sideways")}, ValueError, "'near5' …, got 'sideways'"),
        ({"sees": ("near4",)}, ValueError, "odd width of at least 3.*'near4'"),
        ({"sees": ("near1",)}, ValueError, "odd width of at least 3.*'near1'"),
        ({"sees": ("all", "row", "column", "lines")}, ValueError, "4 patterns .* do not divide 6 heads"),
        ({"sees": ()}, ValueError, "0 patterns"),
        ({"sees": "row"}, TypeError, "sees must be a list"),
        ({"width": 3}, TypeError, "BoardConfig has no width; it has channels, heads"),
    ],
)
def test_invalid_configurations_are_rejected(changes, error, message):
    with pytest.raises(error, match=message):
        BoardNet("light", **changes)


@pytest.mark.usefixtures("unchecked")
def test_unknown_presets_are_rejected():
    with pytest.raises(ValueError, match="'high', 'balanced', 'light', 'small', 'tiny', got 'medium'"):
        BoardNet("medium")
    with pytest.raises(TypeError, match="preset or a BoardConfig, got int"):
        BoardNet(3)
    assert set(PRESETS) == {"high", "balanced", "light", "small", "tiny"}


# -- outputs ---------------------------------------------------------------------------------------------------


def test_the_same_weights_work_on_boards_of_any_size():
    net = settled("tiny")
    for rows, columns in SIZES:
        policy, value, score = net(boards(3, rows, columns))
        assert policy.shape == (3, columns)
        assert value.shape == (3, 1)
        assert score is None
        assert value.abs().max() <= 1


def test_the_policy_of_a_column_depends_on_its_place_and_content():
    policy = settled("tiny")(torch.zeros(1, 2, 6, 7)).policy[0]
    assert policy.unique().numel() > 1  # the border is seen, though there are no stones


def test_the_optional_score_output():
    planes = boards(5)
    assert seeded("tiny", score="position")(planes).score.shape == (5, 1)
    assert seeded("tiny", score="columns")(planes).score.shape == (5, 7)


@pytest.mark.usefixtures("unchecked")
def test_illegal_columns():
    net, planes = settled("tiny"), boards(2)
    legal = torch.tensor([[True] * 6 + [False], [False] * 7])
    policy = net(planes, legal).policy
    assert torch.equal(policy[0, :6], net(planes).policy[0, :6])
    assert policy[~legal].isneginf().all()
    with pytest.raises(ValueError, match=r"shape \(2, 7\), one for each column, got torch.bool of shape \(2, 6\)"):
        net(planes, legal[:, :6])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("planes", "error", "message"),
    [
        (torch.zeros(2, 6, 7), ValueError, r"\(B, 2, rows, columns\), got \(2, 6, 7\); one position needs"),
        (torch.zeros(1, 3, 6, 7), ValueError, r"got \(1, 3, 6, 7\)"),
        (torch.zeros(1, 2, 6, 7, dtype=torch.int64), TypeError, r"got torch.int64; convert with .float\(\)"),
    ],
)
def test_invalid_planes_are_rejected(planes, error, message):
    with pytest.raises(error, match=message):
        seeded("tiny")(planes)


@pytest.mark.parametrize("norm", ["batch", "group", "none"])
@pytest.mark.parametrize("score", ["none", "position", "columns"])
def test_every_parameter_has_a_gradient(norm, score):
    net = seeded("tiny", norm=norm, score=score, sees=("all", "lines"))
    judged = net(boards(8))
    sum(part.square().sum() for part in judged if part is not None).backward()
    for name, parameter in net.named_parameters():
        # A key's bias shifts all scores of a row alike, so that a third of this one is without effect.
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_the_same_seed_gives_the_same_weights_and_the_same_training():
    def trained():
        net = seeded("tiny", channels=48)  # wide enough for tiles
        optimizer = torch.optim.AdamW(net.parameters(), fused=True)
        for step in range(3):
            policy, value, _ = net(boards(16, seed=step))
            loss = policy.logsumexp(-1).mean() + (value - 0.3).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return net.state_dict()

    first, second = trained(), trained()
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = seeded("tiny", channels=48, seed=1).state_dict()
    assert not torch.equal(first["stem.conv.weight"], other["stem.conv.weight"])


def test_the_network_learns_a_rule_that_needs_the_whole_board():
    """Play the column whose mirror image holds the only stone: no 3×3 neighbourhood knows it."""
    torch.manual_seed(0)
    net = BoardNet("tiny", layers=1, attn_every=1)
    optimizer = torch.optim.AdamW(net.parameters(), 3e-3)
    squares = torch.arange(42)
    planes, column = torch.zeros(42, 2, 6, 7), squares % 7
    planes[squares, 0, squares // 7, column] = 1
    for _ in range(60):
        loss = nn.functional.cross_entropy(net(planes).policy, 6 - column)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (net.eval()(planes).policy.argmax(-1) == 6 - column).float().mean()
    assert right > 0.9


# -- what heads see --------------------------------------------------------------------------------------------


def test_attention_patterns_from_one_square():
    def seen(kind, square=(2, 2)):
        squares = attention_pattern(kind, 6, 7)[square[0] * 7 + square[1]].nonzero().flatten().tolist()
        return {(s // 7, s % 7) for s in squares}

    assert seen("row") == {(2, c) for c in range(7)}
    assert seen("column") == {(r, 2) for r in range(6)}
    assert seen("falling") == {(i, i) for i in range(6)}
    assert seen("rising") == {(4, 0), (3, 1), (2, 2), (1, 3), (0, 4)}
    assert seen("diagonals") == seen("falling") | seen("rising")
    assert seen("lines") == seen("row") | seen("column") | seen("diagonals")
    assert seen("near3") == {(r, c) for r in (1, 2, 3) for c in (1, 2, 3)}
    assert seen("near5", (0, 6)) == {(r, c) for r in (0, 1, 2) for c in (4, 5, 6)}
    assert len(seen("all")) == 42


def test_each_pattern_gets_an_equal_share_of_the_heads():
    net = settled("tiny", sees=("all", "near3", "row", "column"))
    with torch.no_grad(), regard.watch(net) as seen:
        net(boards(2))
    weights = seen.calls[0].weights()
    assert weights.shape == (2, 4, 42, 42)
    for head, kind in enumerate(net.config.sees):
        visible = attention_pattern(kind, 6, 7)
        assert (weights[:, head][:, ~visible] == 0).all()
        assert (weights[:, head][:, visible] > 0).all()


@pytest.mark.parametrize("kind", ["near3", "row", "column", "rising", "falling", "diagonals", "lines"])
def test_hidden_squares_do_not_change_the_output(kind):
    torch.manual_seed(0)
    layer = BoardAttention(16, 2, (kind,), "batch").eval()
    x = torch.randn(1, 16, 6, 7)
    before, square = layer(x), (1, 5)
    x[:, :, *square] += 3.0
    changed = (layer(x) - before).abs().amax((0, 1)).flatten() > 0
    assert torch.equal(changed, attention_pattern(kind, 6, 7)[:, square[0] * 7 + square[1]])


def test_cached_masks_work_in_training_after_inference():
    net = seeded("tiny", sees=("near5", "diagonals"))
    with torch.inference_mode():
        net(boards(4, 5, 5))
    net(boards(4, 5, 5)).value.sum().backward()
    assert net.attention[0].squares.qkv.weight.grad.abs().max() > 0


def test_watch_names_the_attention_layers():
    net = settled("small")
    with torch.no_grad(), regard.watch(net) as seen:
        net(boards(8))
    assert [call.name for call in seen.calls] == ["attention.0.squares", "attention.1.squares"]
    assert [call.shape for call in seen.calls] == [(8, 8, 42, 42)] * 2


def test_a_network_without_attention():
    net = settled("tiny", attn_every=None)
    with torch.no_grad(), regard.watch(net) as seen:
        assert net(boards(2)).policy.shape == (2, 7)
    assert not seen.calls
    assert net.config.attentions == 0


# -- heads that change in number -------------------------------------------------------------------------------


def test_a_change_of_heads_is_linear_in_blend():
    torch.manual_seed(0)
    layer = BoardAttention(16, 2, ("all", "row"), "group").eval()
    x = torch.randn(2, 16, 6, 7)
    old, weights = layer(x), copy.deepcopy(layer.state_dict())
    layer.set_heads(8, 8, 1.0)
    new = layer(x)
    assert not torch.allclose(new, old, atol=1e-3)
    for blend in (0.0, 0.25, 1.0):
        layer.set_heads(8, 2, blend)
        torch.testing.assert_close(layer(x), (1 - blend) * old + blend * new)
    assert all(torch.equal(layer.state_dict()[name], value) for name, value in weights.items())


def test_the_halves_of_a_head_have_its_pattern():
    net = settled("tiny", sees=("near3", "row", "all", "all"))
    net.set_heads(8)
    with torch.no_grad(), regard.watch(net) as seen:
        net(boards(1))
    weights = seen.calls[0].weights()[0]
    for head, kind in enumerate(("near3", "near3", "row", "row", "all", "all", "all", "all")):
        assert (weights[head][~attention_pattern(kind, 6, 7)] == 0).all()


def test_at_blend_zero_the_network_is_unchanged():
    net, planes = settled("tiny"), boards(4)
    before = net(planes)
    net.set_heads(16, blend=0.0)
    assert net.config.heads == 16
    assert torch.equal(net(planes).policy, before.policy)
    warming = copy.deepcopy(net)
    warming.set_heads(16, before=4, blend=0.5)
    assert not torch.equal(warming(planes).policy, before.policy)
    torch.testing.assert_close(warming.for_inference()(planes).policy, warming(planes).policy, atol=1e-5, rtol=0)
    warming(planes).policy.sum().backward()
    assert net.attention[0].squares.qkv.weight.grad is None  # a copy has weights of its own, old heads included
    assert warming.attention[0].squares.qkv.weight.grad.abs().max() > 0


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net: net.set_heads(5), "5 heads for 32 channels"),
        (lambda net: net.set_heads(8, blend=1.5), "from 0 to 1, got 1.5"),
        (lambda net: net.set_heads(1), "2 patterns .* do not divide 1 heads"),
        (lambda net: HeadSchedule(((0.1, 4),)), "first point of a schedule must be at 0"),
        (lambda net: HeadSchedule(((0, 4), (0.5, 8), (0.5, 16))), "must be increasing"),
        (lambda net: HeadSchedule(((0, 4), (1, 8))), "below 1"),
        (lambda net: HeadSchedule(((0, 4), (0.5, 8), (0.6, 16)), warmup=0.2), "from 0 to 0.1, .* got 0.2"),
        (lambda net: HeadSchedule(((0, 4),)).at(1.2), "0 … 1, got 1.2"),
    ],
)
def test_invalid_changes_of_heads_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call(seeded("tiny", sees=("all", "row")))


def test_a_schedule_depends_on_the_progress_only():
    schedule = HeadSchedule(((0.0, 2), (0.3, 4), (0.7, 8)), warmup=0.1)
    went, jumped = settled("tiny"), settled("tiny")
    for share in (0.0, 0.2, 0.3, 0.33, 0.5, 0.7, 0.75):
        schedule.apply(went, share)
    schedule.apply(jumped, 0.75)
    assert torch.equal(went(boards(3)).policy, jumped(boards(3)).policy)
    assert schedule.at(0.75) == (8, 4, pytest.approx(0.5))
    assert schedule.at(1.0) == (8, 8, 1.0)
    assert HeadSchedule(((0.0, 2), (0.5, 4)), warmup=0.0).at(0.5) == (4, 4, 1.0)


# -- folded, saved ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["tiny", "small", "light"])
@pytest.mark.parametrize("size", SIZES)
def test_folded_equals_unfolded(preset, size):
    net = settled(preset, score="columns")
    folded, planes = net.for_inference(), boards(16, *size)
    with torch.no_grad():
        for found, wanted in zip(folded(planes), net(planes), strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
    assert folded.config.norm == "none"
    assert not any("norm" in name for name in folded.state_dict())
    assert not any(parameter.requires_grad for parameter in folded.parameters())


def test_group_norms_stay():
    net = settled("tiny", norm="group")
    with torch.no_grad():
        assert torch.equal(net.for_inference()(boards(3)).policy, net(boards(3)).policy)


def test_a_folded_network_has_weights_of_its_own():
    net = settled("tiny")
    folded, planes = net.for_inference(), boards(3)
    before = folded(planes).policy
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1)
    assert torch.equal(folded(planes).policy, before)


def test_other_weights_may_be_loaded_into_a_folded_network():
    one, other = (settled("tiny", channels=48, seed=seed).for_inference() for seed in (0, 1))
    with torch.no_grad():
        before = one(boards(4)).policy
        one.load_state_dict(other.state_dict())
        assert not torch.equal(one(boards(4)).policy, before)
        assert torch.equal(one(boards(4)).policy, other(boards(4)).policy)


@pytest.mark.parametrize("fold", [False, True])
def test_saved_and_loaded(fold, tmp_path):
    net = settled("small", sees=("all", "lines"), score="position")
    net = net.for_inference() if fold else net
    save(net, tmp_path)
    again = load(tmp_path)
    assert isinstance(again, BoardNet)
    assert asdict(again.config) == asdict(net.config)
    assert again.blocks[0].first.conv.weight.is_contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        torch.testing.assert_close(again(boards(16)), net(boards(16)), atol=1e-6, rtol=0)


def test_double_precision_and_meta_tensors():
    net = settled("small")
    with torch.no_grad():
        wide = copy.deepcopy(net).double()(boards(16).double())
        torch.testing.assert_close(net(boards(16)).policy.double(), wide.policy, atol=1e-5, rtol=0)
    with torch.device("meta"):
        assert BoardNet("light")(torch.zeros(2, 2, 6, 7)).policy.shape == (2, 7)
