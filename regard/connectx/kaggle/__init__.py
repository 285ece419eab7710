"""Kaggle: the agent interface, the exported file and its NumPy network, and validation of submissions."""
