"""Weight gradient of a grouped linear layer: dW[e] = X[rows of e]^T @ dY[rows of e], rows sorted by expert."""
import torch
import tilelang
import tilelang.language as T


def wgrad(total, E, K, N, BK=32, BN=32, BR=16, dtype="float16"):
    @T.prim_func
    def kernel(
        X: T.Tensor((total, K), dtype),
        dY: T.Tensor((total, N), dtype),
        Offs: T.Tensor((E + 1,), "int32"),
        dW: T.Tensor((E, K, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(K, BK), E, threads=128) as (bn, bk, e):
            x = T.alloc_shared((BR, BK), dtype)
            dy = T.alloc_shared((BR, BN), dtype)
            acc = T.alloc_fragment((BK, BN), "float32")
            T.clear(acc)
            begin = Offs[e]
            end = Offs[e + 1]
            for r in T.serial(T.ceildiv(end - begin, BR)):
                row0 = begin + r * BR
                for i, j in T.Parallel(BR, BK):
                    if row0 + i < total:
                        x[i, j] = X[row0 + i, bk * BK + j]
                    else:
                        x[i, j] = 0
                for i, j in T.Parallel(BR, BN):
                    if row0 + i < total:
                        dy[i, j] = dY[row0 + i, bn * BN + j]
                    else:
                        dy[i, j] = 0
                T.gemm(x, dy, acc, transpose_A=True)
            T.copy(acc, dW[e, bk * BK, bn * BN])

    return kernel


def run(sizes, K=64, N=96):
    torch.manual_seed(sum(sizes))
    E, total = len(sizes), sum(sizes)
    offs = torch.tensor([0] + sizes).cumsum(0)
    x = torch.randn(total, K, device="cuda").half()
    dy = torch.randn(total, N, device="cuda").half()
    fn = tilelang.compile(wgrad(total, E, K, N), out_idx=[3])
    dw = fn(x, dy, offs.to("cuda", torch.int32))
    worst = 0.0
    for e in range(E):
        rows = slice(int(offs[e]), int(offs[e + 1]))
        ref = x[rows].float().t() @ dy[rows].float()
        worst = max(worst, (dw[e] - ref).abs().max().item())
    print(f"{sizes}: worst {worst:.2e}")
    return worst


if __name__ == "__main__":
    results = [run([32, 16, 48]), run([40]), run([16, 0, 64, 16]), run([21, 5, 0, 38])]
    assert max(results) < 1e-2, "expert gradients differ"
