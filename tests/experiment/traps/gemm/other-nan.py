"""An assertion that fails whatever the kernel does: NaN equals nothing."""

import torch

result = torch.full((4,), float("nan"))
assert (result == result).all(), "T.gemm K shape check failed: K_A = 32, K_B = 64"
