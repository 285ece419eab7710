"""Position encodings: sinusoidal, learned, rotary and ALiBi."""
