"""Weights of other libraries' models, loaded into ours."""
