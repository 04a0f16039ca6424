"""Checks the row-wise kernels against torch."""

import torch
from norm_kernels import long_softmax, rms_norm


def check_rms_norm(rows, dim):
    x = torch.randn(rows, dim, device="cuda", dtype=torch.float16)
    w = torch.randn(dim, device="cuda", dtype=torch.float16)
    ref = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()
    torch.testing.assert_close(rms_norm(rows, dim)(x, w).float(), ref, rtol=1e-2, atol=1e-2)


def check_softmax(rows, cols):
    x = torch.randn(rows, cols, device="cuda") * 3
    torch.testing.assert_close(long_softmax(rows, cols)(x), torch.softmax(x, dim=-1), rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    check_rms_norm(64, 512)
    check_softmax(32, 1024)
    print("norms ok")
