"""Figures of results: training curves, comparisons, arena tables."""
