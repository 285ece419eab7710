"""Kaggle: the agent function, the exported file, and its validation."""
