"""Row softmax of wide rows in two sweeps: an online max and sum, then the values."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def online_softmax(rows, cols, block_rows=8, block_cols=128, dtype="float32"):
    tiles = T.ceildiv(cols, block_cols)

    @T.prim_func
    def main(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((rows, cols), dtype)):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            x = T.alloc_fragment((block_rows, block_cols), dtype)
            m = T.alloc_fragment((block_rows,), dtype)
            m_new = T.alloc_fragment((block_rows,), dtype)
            part = T.alloc_fragment((block_rows,), dtype)
            total = T.alloc_fragment((block_rows,), dtype)
            T.fill(m, -T.infinity(dtype))
            T.clear(total)
            for t in T.serial(tiles):
                for i, j in T.Parallel(block_rows, block_cols):
                    x[i, j] = T.if_then_else(t * block_cols + j < cols, X[bx * block_rows + i, t * block_cols + j], -T.infinity(dtype))
                T.copy(m, m_new)
                T.reduce_max(x, m_new, dim=1, clear=False)
                for i, j in T.Parallel(block_rows, block_cols):
                    x[i, j] = T.exp(x[i, j] - m_new[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block_rows):
                    total[i] = total[i] + part[i]  # BUG
                T.copy(m_new, m)
            for t in T.serial(tiles):
                T.copy(X[bx * block_rows, t * block_cols], x)
                for i, j in T.Parallel(block_rows, block_cols):
                    x[i, j] = T.exp(x[i, j] - m[i]) / total[i]
                T.copy(x, Y[bx * block_rows, t * block_cols])

    return main


def test_online_softmax():
    torch.manual_seed(12)
    x = 3.0 * torch.randn(32, 600, device="cuda")
    y = online_softmax(32, 600)(x)
    torch.testing.assert_close(y, torch.softmax(x, dim=-1), rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    test_online_softmax()
    print("online softmax ok")
