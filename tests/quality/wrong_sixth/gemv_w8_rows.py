"""y[r] = scale[r] * (Wq[r, :] . x) for the rows that are alive; dead rows keep zero."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4])
def masked_gemv(M, K, block_M=16, block_K=64):
    @T.prim_func
    def gemv(
        Wq: T.Tensor((M, K), "float16"),
        x: T.Tensor((K,), "float16"),
        scale: T.Tensor((M,), "float32"),
        alive: T.Tensor((M,), "int32"),
        y: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            w_s = T.alloc_shared((block_M, block_K), "float16")
            x_s = T.alloc_shared((block_K,), "float16")
            prod = T.alloc_fragment((block_M, block_K), "float32")
            acc = T.alloc_fragment((block_M,), "float32")

            T.clear(acc)
            for ko in T.serial(T.ceildiv(K, block_K)):
                for i, j in T.Parallel(block_M, block_K):
                    w_s[i, j] = T.if_then_else(
                        (bx * block_M + i < M) and (ko * block_K + j < K),
                        Wq[bx * block_M + i, ko * block_K + j],
                        T.cast(0, "float16"),
                    )
                for j in T.Parallel(block_K):
                    x_s[j] = T.if_then_else(ko * block_K + j < K, x[ko * block_K + j], T.cast(0, "float16"))
                for i, j in T.Parallel(block_M, block_K):
                    prod[i, j] = T.cast(w_s[i, j] * x_s[j], "float32")  # BUG
                T.reduce_sum(prod, acc, dim=1, clear=False)

            for i in T.Parallel(block_M):
                if bx * block_M + i < M:
                    y[bx * block_M + i] = T.if_then_else(
                        alive[bx * block_M + i] > 0, acc[i] * scale[bx * block_M + i], 0.0
                    )

    return gemv


def reference(Wq, x, scale, alive):
    out = (Wq.float() @ x.float()) * scale
    return torch.where(alive > 0, out, torch.zeros_like(out))


def main():
    torch.manual_seed(1)
    M, K = 90, 300
    # weights live on the int8 grid; a few activation channels are outliers
    Wq = torch.randint(-127, 128, (M, K), device="cuda").half()
    x = (torch.randn(K, device="cuda") * 4).half()
    x[[17, 130, 271]] = torch.tensor([912.0, -740.0, 655.0], device="cuda").half()
    scale = torch.rand(M, device="cuda") * 1e-3 + 1e-4
    alive = (torch.arange(M, device="cuda") % 5 != 3).int()

    y = masked_gemv(M, K)(Wq, x, scale, alive)
    torch.testing.assert_close(y, reference(Wq, x, scale, alive), rtol=1e-3, atol=1e-2)
    print("gemv matches")


if __name__ == "__main__":
    main()
