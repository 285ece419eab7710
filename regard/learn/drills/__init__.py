"""Attention computed by hand, with kind numbers: `making.py` makes a drill, `drill.py` checks what was answered."""
