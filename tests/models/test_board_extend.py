"""A board network that is made deeper computes the same at first, and learns with all of its layers."""

import pytest
import torch

from regard.models import BoardNet, deepen
from support.board_networks import boards, settled


@pytest.mark.parametrize("norm", ["batch", "group", "none"])
@pytest.mark.parametrize("attn_every", [None, 2])
def test_a_deeper_network_computes_the_same_and_new_layers_have_gradients(norm, attn_every):
    net = settled("tiny", layers=3, attn_every=attn_every, norm=norm, score="columns")
    deeper = deepen(net, 6)
    planes = boards(8)
    for mine, other in zip(net.eval()(planes), deeper.eval()(planes), strict=True):
        assert torch.equal(mine, other)
    deeper.train()
    optimizer = torch.optim.AdamW(deeper.parameters(), lr=1e-3)
    before = {name: value.detach().clone() for name, value in deeper.named_parameters()}
    for _ in range(2):  # what is behind a layer of zeros has no gradient in the first step
        judged = deeper(planes)
        (judged.policy.square().sum() + judged.value.sum() + judged.score.sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
    new = [name for name in before if name.startswith(("blocks.3", "blocks.5", "attention.1", "attention.2"))]
    assert new
    still = [name for name, value in deeper.named_parameters() if torch.equal(value, before[name])]
    assert not set(still) & set(new)


def test_networks_that_cannot_be_deepened():
    with pytest.raises(ValueError, match=r"layers must be at least 3, .* got 2"):
        deepen(BoardNet("tiny", layers=3, attn_every=None), 2)
    with pytest.raises(ValueError, match="ends with attention"):
        deepen(BoardNet("tiny"), 5)
    net = BoardNet("tiny").eval()
    same = deepen(net, 4)
    assert torch.equal(net(boards(2)).policy, same(boards(2)).policy)
