"""Kaggle's negamax as an agent in a file, for `regard connectx arena … bench/negamax/main.py`."""

from kaggle_environments.envs.connectx.connectx import negamax_agent


def agent(observation, configuration):
    """The column it chooses."""
    return negamax_agent(observation, configuration)
