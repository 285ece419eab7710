"""Game-tree search: alpha-beta, MCTS, PUCT and the Gumbel root."""
