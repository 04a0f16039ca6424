"""The k largest entries of every row with their places, by k rounds of max."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def topk(rows, cols, k, block=16, threads=128):
    @T.prim_func
    def main(
        X: T.Tensor((rows, cols), "float32"),
        Values: T.Tensor((rows, k), "float32"),
        Places: T.Tensor((rows, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as b:
            x = T.alloc_fragment((block, cols), "float32")
            where = T.alloc_fragment((block, cols), "int32")
            value = T.alloc_fragment((block,), "float32")
            place = T.alloc_fragment((block,), "int32")
            T.copy(X[b * block, 0], x)
            for r in T.serial(k):
                T.reduce_max(x, value, dim=1)
                for i, j in T.Parallel(block, cols):
                    where[i, j] = T.if_then_else(x[i, j] == value[i], j, cols)
                T.reduce_min(where, place, dim=1)
                for i in T.Parallel(block):
                    Values[b * block + i, r] = value[i]
                    Places[b * block + i, r] = place[i]
                for i, j in T.Parallel(block, cols):
                    x[i, j] = T.if_then_else(j == r, -T.infinity("float32"), x[i, j])  # BUG

    return main


if __name__ == "__main__":
    torch.manual_seed(2)
    rows, cols, k = 64, 64, 4
    x = torch.randn(rows, cols, device="cuda")
    values, places = topk(rows, cols, k)(x)
    ref = torch.topk(x, k, dim=1)
    torch.testing.assert_close(values, ref.values, rtol=0, atol=0)
    assert torch.equal(places.long(), ref.indices)
    print("topk ok")
