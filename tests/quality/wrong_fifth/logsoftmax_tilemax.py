import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[1])
def log_softmax(M, N, temperature, BM=8, BN=64):
    inv_t = 1.0 / temperature

    @T.prim_func
    def main(X: T.Tensor((M, N), "float16"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, BM), threads=128) as bx:
            x = T.alloc_fragment((BM, BN), "float32")
            e = T.alloc_fragment((BM, BN), "float32")
            piv = T.alloc_fragment((BM,), "float32")
            old = T.alloc_fragment((BM,), "float32")
            ts = T.alloc_fragment((BM,), "float32")
            total = T.alloc_fragment((BM,), "float32")

            T.fill(piv, 0.0)
            T.clear(total)
            for t in T.serial(T.ceildiv(N, BN)):
                for i, j in T.Parallel(BM, BN):
                    x[i, j] = T.if_then_else(
                        bx * BM + i < M and t * BN + j < N, T.cast(X[bx * BM + i, t * BN + j], "float32") * inv_t, -1e9
                    )
                T.copy(piv, old)
                # the pivot follows the tile; any finite pivot gives the same log-sum-exp
                T.reduce_max(x, piv, dim=1, clear=True)
                for i, j in T.Parallel(BM, BN):
                    e[i, j] = T.exp(x[i, j] - piv[i])
                T.reduce_sum(e, ts, dim=1)
                for i in T.Parallel(BM):
                    total[i] = total[i] * T.exp(old[i] - piv[i]) + ts[i]

            for t in T.serial(T.ceildiv(N, BN)):
                for i, j in T.Parallel(BM, BN):
                    if bx * BM + i < M and t * BN + j < N:
                        Y[bx * BM + i, t * BN + j] = T.cast(X[bx * BM + i, t * BN + j], "float32") * inv_t - (
                            piv[i] + T.log(total[i])
                        )

    return main


def main():
    torch.manual_seed(1)
    for M, N, temp in [(16, 256, 1.0), (13, 200, 0.7), (5, 40, 2.5)]:
        x = (torch.randn(M, N, device="cuda") * 2 - 3).half()
        y = log_softmax(M, N, temp)(x)
        ref = torch.log_softmax(x.float() / temp, dim=-1)
        torch.testing.assert_close(y, ref, rtol=1e-4, atol=1e-4)
    print("ok")


if __name__ == "__main__":
    main()
