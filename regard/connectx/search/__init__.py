"""Game-tree search: alpha-beta, MCTS with play-outs, PUCT with a network, and the Gumbel root."""
