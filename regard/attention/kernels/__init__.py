"""How attention is computed in torch: block plan, tiles, autograd, materialized weights, streaming, torch.compile."""
