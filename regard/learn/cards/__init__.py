"""Interview questions as cards, one TOML file per topic.

`card` reads the files, `spaced_repetition` decides when a card is due again, `interview` draws the questions of a mock
interview and summarizes the answers by topic.
"""
