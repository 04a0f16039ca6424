import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def column_cumsum(X, block_M: int = 32, block_N: int = 64):
    """Inclusive prefix sum down the rows, one column strip per block."""
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(N, block_N), threads=64) as bx:
        tile = T.alloc_shared((block_M, block_N), T.float32)
        carry = T.alloc_shared((block_N,), T.float32)

        for j in T.Parallel(block_N):
            carry[j] = 0.0

        for t in T.serial(T.ceildiv(M, block_M)):
            T.copy(X[t * block_M, bx * block_N], tile)
            for r in T.serial(1, block_M):
                for j in T.Parallel(block_N):
                    tile[r, j] = tile[r, j] + tile[r - 1, j]

            for i, j in T.Parallel(block_M, block_N):
                if t * block_M + i < M and bx * block_N + j < N:
                    Y[t * block_M + i, bx * block_N + j] = tile[i, j] + carry[j]

            for j in T.Parallel(block_N):
                carry[j] = tile[block_M - 1, j]  # BUG

    return Y


def run(M, N):
    x = torch.rand(M, N, device="cuda") - 0.4
    y = column_cumsum(x)
    ref = torch.cumsum(x.double(), dim=0).float()
    torch.testing.assert_close(y, ref, rtol=1e-4, atol=1e-3)
    print(f"{M}x{N} ok")


if __name__ == "__main__":
    torch.manual_seed(3)
    run(32, 64)
    run(60, 100)
    run(250, 130)
