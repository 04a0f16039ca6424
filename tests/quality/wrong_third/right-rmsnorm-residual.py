"""Residual add and RMSNorm in one pass; the sum is kept for the next block."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3, 4])
def add_rmsnorm(tokens, hidden, eps=1e-6, block=8):
    @T.prim_func
    def main(
        X: T.Tensor((tokens, hidden), "float16"),
        Res: T.Tensor((tokens, hidden), "float16"),
        W: T.Tensor((hidden,), "float16"),
        Y: T.Tensor((tokens, hidden), "float16"),
        Sum: T.Tensor((tokens, hidden), "float16"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=128) as b:
            x = T.alloc_fragment((block, hidden), "float32")
            res = T.alloc_fragment((block, hidden), "float32")
            sq = T.alloc_fragment((block, hidden), "float32")
            inv = T.alloc_fragment((block,), "float32")
            T.copy(X[b * block, 0], x)
            T.copy(Res[b * block, 0], res)
            for i, j in T.Parallel(block, hidden):
                x[i, j] = x[i, j] + res[i, j]
            T.copy(x, Sum[b * block, 0])
            for i, j in T.Parallel(block, hidden):
                sq[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(sq, inv, dim=1)
            for i in T.Parallel(block):
                inv[i] = T.rsqrt(inv[i] / hidden + eps)
            for i, j in T.Parallel(block, hidden):
                x[i, j] = x[i, j] * inv[i] * T.cast(W[j], "float32")
            T.copy(x, Y[b * block, 0])

    return main


def reference(x, res, w, eps=1e-6):
    s = x.float() + res.float()
    return s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + eps) * w.float(), s


if __name__ == "__main__":
    torch.manual_seed(207)
    tokens, hidden = 60, 256
    x, res = (torch.randn(tokens, hidden, device="cuda").half() for _ in range(2))
    w = (1 + 0.2 * torch.randn(hidden, device="cuda")).half()
    y, total = add_rmsnorm(tokens, hidden)(x, res, w)
    want_y, want_total = reference(x, res, w)
    torch.testing.assert_close(total.float(), want_total, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(y.float(), want_y, rtol=2e-3, atol=2e-3)
    print("add rmsnorm ok")
