"""Measuring players: games, round robins, ratings, move quality, reports."""
