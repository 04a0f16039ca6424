"""Top-k of non-negative probabilities: what was taken is overwritten by -1, which no probability can be."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def topk(rows, experts, k, block=32):
    @T.prim_func
    def kernel(
        P: T.Tensor((rows, experts), "float32"),
        values: T.Tensor((rows, k), "float32"),
        indices: T.Tensor((rows, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            p = T.alloc_fragment((block, experts), "float32")
            at = T.alloc_fragment((block, experts), "int32")
            best = T.alloc_fragment((block,), "float32")
            best_at = T.alloc_fragment((block,), "int32")
            T.copy(P[bx * block, 0], p)
            for n in T.serial(k):
                T.fill(best, 0)
                T.reduce_max(p, best, dim=1, clear=False)
                for i, j in T.Parallel(block, experts):
                    at[i, j] = T.if_then_else(p[i, j] >= best[i], j, -1)
                T.reduce_max(at, best_at, dim=1)
                for i, j in T.Parallel(block, experts):
                    p[i, j] = T.if_then_else(j == best_at[i], -1.0, p[i, j])
                for i in T.Parallel(block):
                    values[bx * block + i, n] = best[i]
                    indices[bx * block + i, n] = best_at[i]

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    p = torch.softmax(torch.randn(64, 16, device="cuda"), dim=1)
    values, indices = topk(64, 16, 4)(p)
    expected, expected_indices = p.topk(4, dim=1)
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=0)
    assert torch.equal(indices.long(), expected_indices)
    print("topk ok")
