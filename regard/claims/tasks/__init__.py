"""Code that experiments share: small models, training tasks, a training loop, and the cost figures of a document."""
