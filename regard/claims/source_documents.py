"""The five documents that make the claims, by what they are about."""

from regard.claims.claim import words

INTERVIEWS = words("attention for interviews", "面向面试的注意力")
INTUITION = words("attention from intuition to mathematics", "注意力：从直觉到数学")
LINEAR = words("nn.Linear and multi-head attention", "nn.Linear 与多头注意力")
TRANSFORMER = words("Transformer and self-attention", "Transformer 与自注意力")
CONNECTX = words("an attention network that plays ConnectX", "下 ConnectX 的注意力网络")

ALL = (INTERVIEWS, INTUITION, LINEAR, TRANSFORMER, CONNECTX)
