"""Softmax along the rows of small square score matrices, one matrix a block."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def softmax_blocks(scores):
    batch, n = T.const("batch, n")
    scores: T.Tensor((batch, n, n), T.float32)
    out = T.empty((batch, n, n), T.float32)

    with T.Kernel(batch, threads=128) as b:
        x = T.alloc_fragment((n, n), T.float32)
        top = T.alloc_fragment((n,), T.float32)
        total = T.alloc_fragment((n,), T.float32)
        norm = T.alloc_shared((n,), T.float32)
        T.copy(scores[b, :, :], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(n, n):
            x[i, j] = T.exp(x[i, j] - top[i])
        T.reduce_sum(x, total, dim=0)  # BUG
        T.copy(total, norm)
        for i, j in T.Parallel(n, n):
            x[i, j] = x[i, j] / norm[i]
        T.copy(x, out[b, :, :])
    return out


if __name__ == "__main__":
    torch.manual_seed(2)
    scores = torch.randn(8, 32, 32, device="cuda")
    torch.testing.assert_close(softmax_blocks(scores), scores.softmax(-1), rtol=1e-4, atol=1e-5)
    print("ok")
