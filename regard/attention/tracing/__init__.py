"""Attention one named step at a time: the steps, their record, one worked cell, and the text of a trace."""
