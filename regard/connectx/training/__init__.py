"""Training of board networks by distillation, PPO or AlphaZero.

`run` configures, starts and resumes runs. It combines the training loop of `regard.training.loop` with an algorithm
(`distillation`, `ppo`, `alphazero`) and evaluates networks on solved positions and in games (`evaluation`). `compare`
trains and compares two configurations. `fit_opening_table` adds a table of exact opening values to a trained network.
"""
