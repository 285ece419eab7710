"""Players: the protocol, the registry of names, and one module for each family of players."""
