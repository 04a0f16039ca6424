# Out-of-place transpose through shared memory; M and N are not multiples of the tile.
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def transpose(M, N, tile=32, pad=1, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
            # an extra column keeps the transposed reads off the same bank
            smem = T.alloc_shared((tile, tile + pad), dtype)
            for i, j in T.Parallel(tile, tile):
                if by * tile + i < M and bx * tile + j < N:
                    smem[i, j] = X[by * tile + i, bx * tile + j]
            for i, j in T.Parallel(tile, tile):
                if bx * tile + i < N and by * tile + j < M:
                    Y[bx * tile + i, by * tile + j] = smem[j, i]

    return main


def main():
    for M, N in [(64, 64), (70, 33), (1, 100), (129, 95)]:
        x = torch.arange(M * N, device="cuda", dtype=torch.float32).reshape(M, N)
        y = transpose(M, N)(x)
        assert y.shape == (N, M)
        assert torch.equal(y, x.t().contiguous()), f"transpose {M}x{N}"
        print(f"{M}x{N} ok")


if __name__ == "__main__":
    main()
