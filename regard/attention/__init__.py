from regard.attention.fused import attend, attend_with_lse
