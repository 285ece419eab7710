"""Kaggle's negamax agent as a file, for `regard connectx arena … bench/negamax/main.py`."""

from kaggle_environments.envs.connectx.connectx import negamax_agent


def agent(observation, configuration):
    """Return the column that negamax plays."""
    return negamax_agent(observation, configuration)
