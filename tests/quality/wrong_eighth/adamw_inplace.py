import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def adamw_step(P, G, Mom, Var, Hyp, beta1: float, beta2: float, eps: float, decay: float, BLK: int = 256):
    n = T.const("n")
    P: T.Tensor[[n], T.float32]
    G: T.Tensor[[n], T.float16]
    Mom: T.Tensor[[n], T.float32]
    Var: T.Tensor[[n], T.float32]
    Hyp: T.Tensor[[3], T.float32]

    with T.Kernel(T.ceildiv(n, BLK), threads=128) as bx:
        m = T.alloc_fragment((BLK,), T.float32)
        v = T.alloc_fragment((BLK,), T.float32)
        g = T.alloc_fragment((BLK,), T.float32)
        for i in T.Parallel(BLK):
            if bx * BLK + i < n:
                g[i] = T.cast(G[bx * BLK + i], T.float32)
                m[i] = Mom[bx * BLK + i] + (1.0 - beta1) * (g[i] - Mom[bx * BLK + i])
                v[i] = beta2 * Var[bx * BLK + i] + (1.0 - beta2) * g[i] * g[i]
                Mom[bx * BLK + i] = m[i]
                Var[bx * BLK + i] = v[i]
                P[bx * BLK + i] = P[bx * BLK + i] * (1.0 - Hyp[0] * decay) - Hyp[0] * Hyp[1] * m[i] / (
                    T.sqrt(v[i]) * Hyp[2] + eps
                )


def fused_step(p, g, m, v, step, lr, betas, eps, wd):
    b1, b2 = betas
    hyp = torch.tensor([lr, 1.0 / (1.0 - b1**step), (1.0 - b2**step) ** -0.5], device=p.device)
    adamw_step(p, g, m, v, hyp, b1, b2, eps, wd)


def main():
    torch.manual_seed(0)
    n, lr, betas, eps, wd = 1000, 3e-3, (0.9, 0.95), 1e-8, 0.1
    p = torch.randn(n, device="cuda")
    ref = torch.nn.Parameter(p.clone())
    opt = torch.optim.AdamW([ref], lr=lr, betas=betas, eps=eps, weight_decay=wd)
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for step in range(1, 6):
        g = torch.randn(n, device="cuda").half()
        fused_step(p, g, m, v, step, lr, betas, eps, wd)
        ref.grad = g.float()
        opt.step()
        torch.testing.assert_close(p, ref.data, rtol=1e-4, atol=1e-5)
    print("adamw ok")


if __name__ == "__main__":
    main()
