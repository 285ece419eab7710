"""What another process, perhaps on another machine, needs to build a player: its name and the content of its files."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.connectx.players.player import Player
from regard.connectx.players.registry import AGENT_FILES, parse_name, player
from regard.parallel import Engine, Handle


@dataclass
class Recipe:
    """The name of a player, and its network or its agent file, None if the name is enough.

    >>> Recipe("greedy").build(0).name
    'greedy'
    """

    name: str
    network: Any = None
    agent: bytes | None = None

    def build(self, seed: int) -> Player:
        """Return a player with this seed. A network has no state between two moves, so there is one for all games."""
        if self.network is not None:
            return self.network
        if self.agent is None:
            return player(self.name, seed=seed)
        folder = Path(tempfile.mkdtemp(prefix="regard-"))  # the operating system's; it lasts as long as the process
        file = folder / Path(self.name).name
        file.write_bytes(self.agent)
        agent = player(str(file), seed=seed)
        agent.name = self.name
        return agent

    @property
    def reused(self) -> bool:
        """Whether one player of a process plays all its games, because it is slow to start."""
        return self.name == "solver" or self.name.endswith(AGENT_FILES)


def share_player(name: str, engine: Engine) -> Handle:
    """Return a handle of the recipe of the player with this name, which the workers of an engine can use."""
    if name.endswith(AGENT_FILES) and Path(name).is_file():
        return engine.share(Recipe(name, agent=None if engine.same_files else Path(name).read_bytes()))
    return engine.share(Recipe(name, player(name) if parse_name(name).kind == "network" else None))


class Players:
    """The players of a worker, by name.

    >>> from regard.parallel import LocalEngine
    >>> Players({"greedy": share_player("greedy", LocalEngine())})("greedy", 0).name
    'greedy'
    """

    def __init__(self, handles: dict[str, Handle]) -> None:
        self._handles = handles
        self._reused: dict[str, Player] = {}

    def __call__(self, name: str, seed: int) -> Player:
        """Return a player with this seed, so that what it does is reproducible."""
        if name not in self._reused:
            recipe: Recipe = self._handles[name].value()
            if not recipe.reused:
                return recipe.build(seed)
            self._reused[name] = recipe.build(seed)
        return self._reused[name]
