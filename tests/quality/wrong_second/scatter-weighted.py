"""Adds weighted token rows to the rows of their destinations, with atomics."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def scatter_add(tokens, slots, width, block=16):
    @T.prim_func
    def main(
        X: T.Tensor((tokens, width), "float32"),
        weight: T.Tensor((tokens,), "float32"),
        target: T.Tensor((tokens,), "int32"),
        Out: T.Tensor((slots, width), "float32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=128) as b:
            for i, j in T.Parallel(block, width):
                token = b * block + i
                slot = target[token]
                T.atomic_add(Out[slot, j], X[token, j] * weight[slot])  # BUG

    return main


if __name__ == "__main__":
    torch.manual_seed(9)
    tokens, slots, width = 160, 48, 64
    x = torch.randn(tokens, width, device="cuda")
    weight = torch.randn(tokens, device="cuda")
    target = torch.randint(0, slots, (tokens,), device="cuda", dtype=torch.int32)
    out = torch.zeros(slots, width, device="cuda")
    scatter_add(tokens, slots, width)(x, weight, target, out)
    expected = torch.zeros_like(out).index_add_(0, target.long(), x * weight[:, None])
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    print("scatter ok")
