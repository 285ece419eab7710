"""Labels (positions with exact scores): how they are generated and stored, and a network's values for them."""
