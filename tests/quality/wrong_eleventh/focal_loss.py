import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


def make_focal(M, C, alpha, gamma, bm=8, bc=32):
    """Sigmoid focal loss (Lin et al. 2017) over (M, C) logits: row losses, and the gradient of their weighted sum."""

    @T.macro
    def signed_logit(X, Y, bx, c0, z):
        # z > 0 means "on the side of the label"; columns and rows outside are set to a saturated hit
        for i, j in T.Parallel(bm, bc):
            if bx * bm + i < M and c0 + j < C:
                z[i, j] = T.if_then_else(Y[bx * bm + i, c0 + j] > 0.5, X[bx * bm + i, c0 + j], -X[bx * bm + i, c0 + j])
            else:
                z[i, j] = 50.0

    def log_sigmoid(z):
        return T.min(z, 0.0) - T.log(1.0 + T.exp(-T.abs(z)))

    @T.prim_func
    def forward(X: T.Tensor((M, C), "float32"), Y: T.Tensor((M, C), "float32"), Loss: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, bm), threads=128) as bx:
            z = T.alloc_fragment((bm, bc), "float32")
            part = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            T.clear(total)
            for c in T.serial(T.ceildiv(C, bc)):
                signed_logit(X, Y, bx, c * bc, z)
                for i, j in T.Parallel(bm, bc):
                    logp = log_sigmoid(z[i, j])
                    z[i, j] = -T.pow(1.0 - T.exp(logp), gamma) * logp
                    if bx * bm + i < M and c * bc + j < C:
                        z[i, j] *= T.if_then_else(Y[bx * bm + i, c * bc + j] > 0.5, alpha, 1.0 - alpha)
                T.reduce_sum(z, part, dim=1)
                for i in T.Parallel(bm):
                    total[i] += part[i]
            for i in T.Parallel(bm):
                if bx * bm + i < M:
                    Loss[bx * bm + i] = total[i]

    @T.prim_func
    def backward(
        X: T.Tensor((M, C), "float32"),
        Y: T.Tensor((M, C), "float32"),
        G: T.Tensor((M,), "float32"),
        DX: T.Tensor((M, C), "float32"),
    ):
        with T.Kernel(T.ceildiv(C, bc), T.ceildiv(M, bm), threads=128) as (bc_i, bx):
            z = T.alloc_fragment((bm, bc), "float32")
            signed_logit(X, Y, bx, bc_i * bc, z)
            for i, j in T.Parallel(bm, bc):
                m, c = bx * bm + i, bc_i * bc + j
                logp = log_sigmoid(z[i, j])
                p = T.exp(logp)
                dz = -T.pow(1.0 - p, gamma) * ((1.0 - p) + gamma * p * logp)
                if m < M and c < C:
                    DX[m, c] = G[m] * T.if_then_else(Y[m, c] > 0.5, alpha * dz, (alpha - 1.0) * dz)

    return tilelang.compile(forward, out_idx=[2]), tilelang.compile(backward, out_idx=[3])


def torch_focal(x, y, alpha, gamma):
    ce = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    p = torch.sigmoid(x)
    pt = p * y + (1 - p) * (1 - y)
    return ((alpha * y + (1 - alpha) * (1 - y)) * (1 - pt) ** gamma * ce).sum(dim=1)


def check_case(M, C, alpha, gamma):
    x = (2 * torch.randn(M, C, device="cuda")).requires_grad_()
    y = (torch.rand(M, C, device="cuda") < 0.2).float()
    g = torch.rand(M, device="cuda") + 0.5
    want = torch_focal(x, y, alpha, gamma)
    (want_dx,) = torch.autograd.grad(want, x, g)
    fwd, bwd = make_focal(M, C, alpha, gamma)
    loss = fwd(x.detach(), y)
    dx = bwd(x.detach(), y, g)
    errs = [((a - b).abs().max() / b.abs().max()).item() for a, b in ((loss, want), (dx, want_dx))]
    print(f"M={M} C={C} gamma={gamma}: loss {errs[0]:.1e}, dx {errs[1]:.1e}")
    return max(errs) < 1e-4


if __name__ == "__main__":
    torch.manual_seed(2)
    outcomes = [check_case(16, 64, 0.25, 0.0), check_case(16, 64, 0.25, 2.0), check_case(21, 80, 0.4, 1.5)]
    if not all(outcomes):
        raise SystemExit("focal loss mismatch")
