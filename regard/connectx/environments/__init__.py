"""Training environments: vectorized, Gymnasium and PettingZoo."""
