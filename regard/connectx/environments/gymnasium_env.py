"""ConnectX as a Gymnasium environment against a fixed opponent (needs the extra `games`).

    gymnasium.make("regard.connectx.environments.gymnasium_env:regard/ConnectX-v0", opponent="minimax:4")

or `ConnectX(...)`.
"""

from typing import Any

import numpy as np

from regard.connectx.game.board import Board
from regard.connectx.game.board_batch import checked_shape, planes_of
from regard.connectx.players.player import Player
from regard.connectx.players.registry import player
from regard.extras import needs

with needs("games", "the environment ConnectX"):
    import gymnasium

Array = np.ndarray


class ConnectX(gymnasium.Env[Array, np.int64]):
    """One game; a step is the agent's move and the opponent's answer.

    Observations are (2, rows, columns) of float32: own stones and the opponent's, row 0 on top. The reward is 1 for a
    win, −1 for a loss or an illegal move, else 0. `info["action_mask"]` is 1 for legal columns. `first` determines
    whether the agent begins: True, False, or None for a random choice at every reset.

    >>> env = ConnectX("greedy", first=True)
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape, info["action_mask"].tolist()
    ((2, 6, 7), [1, 1, 1, 1, 1, 1, 1])
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self, opponent: str | Player = "random", rows: int = 6, columns: int = 7, inarow: int = 4, *,
        first: bool | None = None, render_mode: str | None = None,
    ) -> None:  # fmt: skip
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode must be 'ansi' or None, got {render_mode!r}")
        self._shape = checked_shape(rows, columns, inarow)
        self._opponent_name, self.first, self.render_mode = opponent, first, render_mode
        self._opponent = player(opponent) if isinstance(opponent, str) else opponent
        self.observation_space = gymnasium.spaces.Box(0, 1, (2, rows, columns), np.float32)
        self.action_space = gymnasium.spaces.Discrete(columns)
        self.board = Board(rows, columns, inarow)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start a new game; `options={"board": board}` starts from that board."""
        super().reset(seed=seed)
        if seed is not None and isinstance(self._opponent_name, str):
            self._opponent = player(self._opponent_name, seed=seed)
        board = (options or {}).get("board")
        self.board = Board(*self._shape[:3]) if board is None else board
        begins = bool(self.np_random.integers(2)) if self.first is None else self.first
        if not begins and not self.board.over:
            self.board = self.board.play(self._opponent.choose(self.board))
        return self._observe()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Play the agent's move and the opponent's answer."""
        reward, ended = 0.0, True
        if int(action) not in self.board.legal:
            reward = -1.0
        else:
            self.board = self.board.play(int(action))
            if self.board.winner is not None:
                reward = 1.0
            elif not self.board.over:
                self.board = self.board.play(self._opponent.choose(self.board))
                reward, ended = (-1.0 if self.board.winner is not None else 0.0), self.board.over
        observation, info = self._observe()
        return observation, reward, ended, False, info

    def render(self) -> Any:  # the return types that gymnasium allows depend on its version
        """Return the board as text if the render mode is "ansi"."""
        return self.board.text() + "\n" if self.render_mode == "ansi" else None

    def _observe(self) -> tuple[Array, dict[str, Any]]:
        mask = np.zeros(self._shape.columns, np.int8)
        mask[self.board.legal] = 1
        planes = planes_of(np.array([self.board.position]), np.array([self.board.mask]), self._shape)
        return planes[0], {"action_mask": mask}


gymnasium.register("regard/ConnectX-v0", entry_point="regard.connectx.environments.gymnasium_env:ConnectX")
