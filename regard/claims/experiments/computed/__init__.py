"""Experiments that compute without training a model."""
