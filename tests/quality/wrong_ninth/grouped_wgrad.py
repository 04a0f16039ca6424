"""Grouped GEMM, weight gradient: dW[e] = X_e^T dY_e where X_e, dY_e are the rows of expert e (sorted by expert)."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def grouped_wgrad(total, experts, d_in, d_out, BI=32, BO=32, BT=16, dtype="float16"):
    @T.prim_func
    def wgrad(
        X: T.Tensor((total, d_in), dtype),
        DY: T.Tensor((total, d_out), dtype),
        Offs: T.Tensor((experts + 1,), "int32"),
        DW: T.Tensor((experts, d_in, d_out), "float32"),
    ):
        with T.Kernel(T.ceildiv(d_out, BO), T.ceildiv(d_in, BI), experts, threads=128) as (bo, bi, e):
            x_s = T.alloc_shared((BT, BI), dtype)
            dy_s = T.alloc_shared((BT, BO), dtype)
            acc = T.alloc_fragment((BI, BO), "float32")
            lo = T.alloc_var("int32")
            hi = T.alloc_var("int32")

            lo = Offs[e]
            hi = Offs[e + 1]
            T.clear(acc)
            for t in T.serial(T.ceildiv(hi - lo, BT)):
                for i, j in T.Parallel(BT, BI):
                    row = lo + t * BT + i
                    x_s[i, j] = T.if_then_else(row < total, X[row, bi * BI + j], T.cast(0, dtype))
                for i, j in T.Parallel(BT, BO):
                    row = lo + t * BT + i
                    dy_s[i, j] = T.if_then_else(row < total, DY[row, bo * BO + j], T.cast(0, dtype))
                T.gemm(x_s, dy_s, acc, transpose_A=True)
            T.copy(acc, DW[e, bi * BI : (bi + 1) * BI, bo * BO : (bo + 1) * BO])

    return wgrad


def check(sizes, d_in=64, d_out=96):
    experts, total = len(sizes), sum(sizes)
    offs = torch.tensor([0] + sizes, device="cuda").cumsum(0).int()
    x = torch.randn(total, d_in, device="cuda").half()
    dy = torch.randn(total, d_out, device="cuda").half()
    dw = torch.empty(experts, d_in, d_out, device="cuda")
    grouped_wgrad(total, experts, d_in, d_out)(x, dy, offs, dw)

    worst = 0.0
    for e in range(experts):
        a, b = offs[e].item(), offs[e + 1].item()
        want = x[a:b].float().t() @ dy[a:b].float()
        worst = max(worst, (dw[e] - want).abs().max().item())
    print(f"sizes {sizes}: max abs err {worst:.4f}")
    return worst


def main():
    torch.manual_seed(8)
    assert check([32, 16, 48]) < 0.05
    assert check([40]) < 0.05
    assert check([20, 0, 7, 33]) < 0.05
    print("all good")


if __name__ == "__main__":
    main()
