"""Figures of attention weights."""
