"""The board network: residual convolutions with spatial self-attention, policy and value."""
