"""Measuring players: games, round robins, Elo ratings, move quality, tables."""
