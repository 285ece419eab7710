"""Small learning tasks and cost figures that several claims use."""
