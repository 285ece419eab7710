"""ConnectX as a PettingZoo environment: two agents move in turn (needs the extra `games`)."""

from typing import Any

import numpy as np

from regard.connectx.game.board import Board
from regard.extras import needs

with needs("games", "the environment ConnectXAec"):
    from gymnasium import spaces
    from pettingzoo import AECEnv

Array = np.ndarray


class ConnectXAec(AECEnv):  # type: ignore[misc]
    """Game of the agents player_0 and player_1; an observation is a dictionary of `observation` and `action_mask`.

    `observation` is (rows, columns, 2) of int8, own stones and the opponent's, row 0 on top, as in PettingZoo's own
    connect_four. The winner's reward is 1, the loser's −1; an illegal move loses.

    >>> env = ConnectXAec()
    >>> env.reset()
    >>> env.step(3)
    >>> env.agent_selection, env.last()[0]["observation"].sum().item()
    ('player_1', 1)
    """

    metadata = {  # noqa: RUF012 - as PettingZoo declares it
        "name": "regard_connectx_v0",
        "render_modes": ["ansi"],
        "is_parallelizable": False,
        "render_fps": 1,
    }

    def __init__(self, rows: int = 6, columns: int = 7, inarow: int = 4, *, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode
        self._begin = self.board = Board(rows, columns, inarow)
        self.possible_agents = ["player_0", "player_1"]
        self.agents = self.possible_agents[:]
        board, legal = spaces.Box(0, 1, (rows, columns, 2), np.int8), spaces.Box(0, 1, (columns,), np.int8)
        observation = spaces.Dict({"observation": board, "action_mask": legal})
        self.observation_spaces = dict.fromkeys(self.agents, observation)
        self.action_spaces = {agent: spaces.Discrete(columns) for agent in self.agents}

    def observation_space(self, agent: str) -> Any:
        """Return the space of observations of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Return the space of actions of an agent."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a new game."""
        self.board = self._begin
        self.agents = self.possible_agents[:]
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> dict[str, Array]:
        """Return the board from the side of this agent; no action is legal unless it is this agent's turn."""
        marks = np.array(self.board.kaggle(), np.int8).reshape(self.board.rows, self.board.columns)
        own = self.possible_agents.index(agent) + 1
        legal = np.zeros(self.board.columns, np.int8)
        if agent == self.agent_selection:
            legal[self.board.legal] = 1
        return {"observation": np.stack([marks == own, marks == 3 - own], -1).astype(np.int8), "action_mask": legal}

    def step(self, action: Any) -> None:
        """Play the move of the agent whose turn it is."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        other = self.possible_agents[1 - self.possible_agents.index(agent)]
        self._cumulative_rewards[agent] = 0
        self.rewards = dict.fromkeys(self.agents, 0)
        if int(action) not in self.board.legal:
            ended, self.rewards = True, {agent: -1, other: 1}
        else:
            self.board = self.board.play(int(action))
            ended = self.board.over
            if self.board.winner is not None:
                self.rewards = {agent: 1, other: -1}
        self.terminations = dict.fromkeys(self.agents, ended)
        self.agent_selection = other
        self._accumulate_rewards()

    def render(self) -> str | None:
        """Return the board as text if the render mode is "ansi"."""
        return self.board.text() + "\n" if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Do nothing; the environment holds no resources."""
