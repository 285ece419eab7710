"""The five documents that make the claims, by what they are about."""

from regard.languages import bilingual

INTERVIEWS = bilingual("attention for interviews", "面向面试的注意力")
INTUITION = bilingual("attention from intuition to mathematics", "注意力：从直觉到数学")
LINEAR = bilingual("nn.Linear and multi-head attention", "nn.Linear 与多头注意力")
TRANSFORMER = bilingual("Transformer and self-attention", "Transformer 与自注意力")
CONNECTX = bilingual("an attention network that plays ConnectX", "下 ConnectX 的注意力网络")

ALL = (INTERVIEWS, INTUITION, LINEAR, TRANSFORMER, CONNECTX)
