"""LayerNorm of x + residual, which also returns the sum for the next layer."""

import sys

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[4, 5])
def add_layernorm(rows, width, block=8, eps=1e-6):
    @T.prim_func
    def main(
        X: T.Tensor((rows, width), "float16"),
        R: T.Tensor((rows, width), "float16"),
        gamma: T.Tensor((width,), "float16"),
        beta: T.Tensor((width,), "float16"),
        Y: T.Tensor((rows, width), "float16"),
        S: T.Tensor((rows, width), "float16"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as b:
            h = T.alloc_fragment((block, width), "float32")
            sq = T.alloc_fragment((block, width), "float32")
            mean = T.alloc_fragment((block,), "float32")
            var = T.alloc_fragment((block,), "float32")
            T.copy(X[b * block, 0], h)
            for i, j in T.Parallel(block, width):
                h[i, j] += R[b * block + i, j]
            T.reduce_sum(h, mean, dim=1)
            for i in T.Parallel(block):
                mean[i] = mean[i] / width
            for i, j in T.Parallel(block, width):
                sq[i, j] = (h[i, j] - mean[i]) * (h[i, j] - mean[i])
            T.reduce_sum(sq, var, dim=1)
            for i, j in T.Parallel(block, width):
                S[b * block + i, j] = h[i, j] + R[b * block + i, j]  # BUG
                Y[b * block + i, j] = (h[i, j] - mean[i]) * T.rsqrt(var[i] / width + eps) * gamma[j] + beta[j]

    return main


def check(name, got, want, tol):
    error = (got.float() - want).abs().max().item()
    if not error <= tol:
        sys.exit(f"{name}: max abs error {error:.3e} > {tol:.0e}")


if __name__ == "__main__":
    torch.manual_seed(2)
    rows, width = 100, 256
    x, r = (torch.randn(rows, width, device="cuda").half() for _ in range(2))
    gamma, beta = (torch.randn(width, device="cuda").half() for _ in range(2))
    y, s = add_layernorm(rows, width)(x, r, gamma, beta)
    total = x.float() + r.float()
    check("norm", y, torch.nn.functional.layer_norm(total, (width,), gamma.float(), beta.float(), 1e-6), 2e-2)
    check("sum", s, total, 2e-2)
    print("all good")
