"""Labels: random positions, their exact scores, the files they are stored in, and values of a network for them."""
