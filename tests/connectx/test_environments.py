"""The Gymnasium and PettingZoo environments, checked by the checkers of those packages."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from regard.connectx import Board
from regard.connectx.environments.gymnasium_env import ConnectX
from regard.connectx.environments.pettingzoo_env import ConnectXAec

NAME = "regard.connectx.environments.gymnasium_env:regard/ConnectX-v0"


@pytest.mark.parametrize(
    "options", [{}, {"opponent": "greedy", "first": False}, {"rows": 4, "columns": 5, "inarow": 3}]
)
def test_gymnasium(options: dict[str, object]) -> None:
    check_env(gymnasium.make(NAME, **options).unwrapped)


def test_gymnasium_games() -> None:
    env = ConnectX("greedy", first=True, render_mode="ansi")
    rewards = []
    for seed in range(30):
        observation, info = env.reset(seed=seed)
        ended = False
        while not ended:
            assert observation.sum() == env.board.stones
            assert np.flatnonzero(info["action_mask"]).tolist() == env.board.legal
            legal = env.board.legal
            observation, reward, ended, truncated, info = env.step(legal[seed % len(legal)])
            assert not truncated
        rewards.append(reward)
        assert (reward == 1) == (env.board.winner == 1)
        assert (reward == -1) == (env.board.winner == 2)
    assert -1 in rewards
    env.reset(options={"board": Board.from_moves("444444")})
    assert env.step(3)[1:3] == (-1.0, True)  # a full column
    assert env.render() == Board.from_moves("444444").text() + "\n"
    env.reset(options={"board": Board.from_moves("112233")})
    assert env.step(3)[1:3] == (1.0, True)
    with pytest.raises(ValueError, match="render_mode"):
        ConnectX(render_mode="human")


def test_pettingzoo() -> None:
    with warnings.catch_warnings():
        # Its checker imports its own environments the old way, and warns of what its own connect_four does as well:
        # an empty board is all zeros, and observations with a mask are dictionaries.
        warnings.simplefilter("ignore")
        from pettingzoo.test import api_test

        api_test(ConnectXAec(), num_cycles=300, verbose_progress=False)
        api_test(ConnectXAec(4, 5, 3), num_cycles=300, verbose_progress=False)


def test_pettingzoo_games() -> None:
    env = ConnectXAec(render_mode="ansi")
    env.reset()
    for column in (0, 1, 0, 1, 0, 1):
        env.step(column)
    assert env.last()[0]["observation"][..., 0].sum() == 3
    env.step(0)
    assert env.rewards == {"player_0": 1, "player_1": -1}
    assert all(env.terminations.values())
    assert env.render() == Board.from_moves("1212121").text() + "\n"
    env.reset()
    env.step(99)
    assert env.rewards == {"player_0": -1, "player_1": 1}
