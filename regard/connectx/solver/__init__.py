"""The perfect solver: negamax, bit tricks, opening book."""
