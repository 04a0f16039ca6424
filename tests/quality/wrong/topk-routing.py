"""Expert routing: the k largest logits of every token and their indices, found one after another."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def topk(tokens, experts, k, block=32):
    @T.prim_func
    def kernel(
        logits: T.Tensor((tokens, experts), "float32"),
        values: T.Tensor((tokens, k), "float32"),
        indices: T.Tensor((tokens, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=128) as bx:
            x = T.alloc_fragment((block, experts), "float32")
            where = T.alloc_fragment((block, experts), "int32")
            top = T.alloc_fragment((block,), "float32")
            top_index = T.alloc_fragment((block,), "int32")

            T.copy(logits[bx * block, 0], x)
            for n in T.serial(k):
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(block, experts):
                    where[i, j] = T.if_then_else(x[i, j] == top[i], j, -1)
                T.reduce_max(where, top_index, dim=1)
                for i in T.Parallel(block):
                    values[bx * block + i, n] = top[i]
                    indices[bx * block + i, n] = top_index[i]
                for i, j in T.Parallel(block, experts):
                    x[i, j] = T.if_then_else(j == top_index[i], 0.0, x[i, j])  # BUG

    return kernel


if __name__ == "__main__":
    torch.manual_seed(4)
    tokens, experts, k = 128, 8, 6
    logits = torch.randn(tokens, experts, device="cuda")
    values, indices = topk(tokens, experts, k)(logits)
    expected_values, expected_indices = logits.topk(k, dim=1)
    torch.testing.assert_close(values, expected_values)
    assert torch.equal(indices.long(), expected_indices)
    print("topk ok")
