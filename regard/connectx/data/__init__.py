"""Labelled positions: how they are drawn, labelled and stored."""
