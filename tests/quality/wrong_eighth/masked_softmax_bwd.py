import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4])
def softmax_bwd(Bt, H, Lq, N, scale, BR=16, BC=64):
    dtype = "float32"

    @T.prim_func
    def main(
        X: T.Tensor((Bt, H, Lq, N), dtype),
        Lse: T.Tensor((Bt, H, Lq), dtype),
        dP: T.Tensor((Bt, H, Lq, N), dtype),
        Keep: T.Tensor((Bt, N), "int32"),
        dX: T.Tensor((Bt, H, Lq, N), dtype),
    ):
        with T.Kernel(T.ceildiv(Lq, BR), H, Bt, threads=128) as (bq, h, b):
            x = T.alloc_fragment((BR, BC), dtype)
            g = T.alloc_fragment((BR, BC), dtype)
            p = T.alloc_fragment((BR, BC), dtype)
            pg = T.alloc_fragment((BR, BC), dtype)
            delta = T.alloc_fragment((BR,), dtype)

            T.clear(delta)
            for c in T.serial(T.ceildiv(N, BC)):
                T.copy(X[b, h, bq * BR, c * BC], x)
                T.copy(dP[b, h, bq * BR, c * BC], g)
                for i, j in T.Parallel(BR, BC):
                    pg[i, j] = 0.0
                    if c * BC + j < N and bq * BR + i < Lq:
                        if Keep[b, c * BC + j] != 0:
                            pg[i, j] = T.exp(x[i, j] * scale - Lse[b, h, bq * BR + i]) * g[i, j]
                T.reduce_sum(pg, delta, dim=1)  # BUG

            for c in T.serial(T.ceildiv(N, BC)):
                T.copy(X[b, h, bq * BR, c * BC], x)
                T.copy(dP[b, h, bq * BR, c * BC], g)
                for i, j in T.Parallel(BR, BC):
                    p[i, j] = 0.0
                    if c * BC + j < N and bq * BR + i < Lq:
                        if Keep[b, c * BC + j] != 0:
                            p[i, j] = T.exp(x[i, j] * scale - Lse[b, h, bq * BR + i])
                for i, j in T.Parallel(BR, BC):
                    x[i, j] = scale * p[i, j] * (g[i, j] - delta[i])
                T.copy(x, dX[b, h, bq * BR, c * BC])

    return main


def make_inputs(Bt, H, Lq, N):
    x = torch.randn(Bt, H, Lq, N, device="cuda")
    g = torch.randn(Bt, H, Lq, N, device="cuda")
    keep = torch.rand(Bt, N, device="cuda") > 0.3
    keep[:, 0] = True
    return x, g, keep


def reference(x, g, keep, scale):
    x = x.clone().requires_grad_(True)
    s = (x * scale).masked_fill(~keep[:, None, None, :], float("-inf"))
    torch.softmax(s, dim=-1).backward(g)
    return torch.logsumexp(s, dim=-1).detach(), x.grad


def rel_err(a, b):
    return ((a - b).norm() / b.norm().clamp_min(1e-12)).item()


torch.manual_seed(3)
scale = 0.7
bad = []
for shape in [(2, 2, 20, 64), (1, 3, 16, 50), (2, 2, 24, 150)]:
    x, g, keep = make_inputs(*shape)
    lse, want = reference(x, g, keep, scale)
    got = softmax_bwd(*shape, scale)(x, lse, g, keep.int())
    e = rel_err(got, want)
    print(shape, f"relative error {e:.2e}")
    if not e < 1e-4:
        bad.append(shape)
assert not bad, f"gradient mismatch for {bad}"
