"""Players: the protocol, the registry of names, networks, agent files, and play in the terminal."""
