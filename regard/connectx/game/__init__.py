"""The game: boards, bitboards, batches of boards, openings, text output."""
