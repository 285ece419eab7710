"""The game: bitboards, one board, batches of boards, reachable positions, openings, boards as text."""
