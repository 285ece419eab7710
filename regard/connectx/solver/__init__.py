"""The perfect solver: negamax with a transposition table, zugzwang, the opening book and how it is built."""
