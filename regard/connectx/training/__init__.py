"""Training board networks: distillation, PPO, AlphaZero, evaluation, comparison."""
