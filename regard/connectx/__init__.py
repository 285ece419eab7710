"""Connect Four and its relatives: board, perfect solver, search, players, arena, training, Kaggle export.

`game` has the rules: boards as bits, one at a time or in batches. `solver` computes exact scores, `search` alpha-beta,
MCTS and PUCT; `players` gives each of them a name. `data` labels positions with the solver, `training` fits networks to
labels or by self-play, `arena` measures players by games and by comparison with perfect play. `environments` wraps the
game for reinforcement learning, `kaggle` exports and validates players. Names are loaded when first used.
"""

from typing import Any

import lazy_loader

from regard.extras import games_installed

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        with games_installed():
            pass
    return _load(name)
