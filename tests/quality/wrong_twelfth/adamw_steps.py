"""AdamW in place over a flat parameter, several launches, optional decay mask and a global clip factor."""
import torch
import tilelang
import tilelang.language as T

BETA1, BETA2, EPS = 0.9, 0.95, 1e-8


@tilelang.jit
def adamw(n, lr, wd, block=256):
    @T.macro
    def lerp_into(buf, i, value, beta):
        buf[i] = beta * buf[i] + (1.0 - beta) * value

    @T.prim_func
    def step(
        P: T.Tensor((n,), "float32"),
        G: T.Tensor((n,), "float32"),
        M: T.Tensor((n,), "float32"),
        V: T.Tensor((n,), "float32"),
        Decay: T.Tensor((n,), "uint8"),
        Scal: T.Tensor((3,), "float32"),  # clip factor, 1 - beta1^t, 1 - beta2^t
    ):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for t in T.Parallel(block):
                i = bx * block + t
                if i < n:
                    g = G[i] * Scal[0]
                    lerp_into(M, i, g, BETA1)
                    lerp_into(V, i, g * g, BETA2)
                    shrink = T.if_then_else(Decay[i] != 0, 1.0 - lr * wd, 1.0)
                    denom = T.sqrt(V[i] / Scal[2]) + EPS
                    P[i] = P[i] * shrink - lr * (M[i] / Scal[1]) / denom

    return step


def main():
    torch.manual_seed(8)
    n, lr, wd, max_norm = 1000, 3e-3, 0.1, 20.0
    p = torch.randn(n, device="cuda")
    decay = (torch.arange(n, device="cuda") < 700).to(torch.uint8)
    m, v = torch.zeros_like(p), torch.zeros_like(p)

    ref_decay = p[:700].clone().requires_grad_()
    ref_plain = p[700:].clone().requires_grad_()
    opt = torch.optim.AdamW(
        [{"params": [ref_decay], "weight_decay": wd}, {"params": [ref_plain], "weight_decay": 0.0}],
        lr=lr, betas=(BETA1, BETA2), eps=EPS,
    )

    step = adamw(n, lr, wd)
    clipped = 0
    for t in range(1, 9):
        g = torch.randn(n, device="cuda") * (0.2 * t)
        clip = min(1.0, max_norm / g.norm().item())
        clipped += clip < 1.0
        scal = torch.tensor([clip, 1 - BETA1**t, 1 - BETA2**t], device="cuda")
        step(p, g, m, v, decay, scal)

        ref_decay.grad, ref_plain.grad = (g * clip).split([700, 300])
        opt.step()
        torch.testing.assert_close(p, torch.cat([ref_decay, ref_plain]).detach(), rtol=1e-5, atol=2e-5)
    assert 0 < clipped < 8
    print(f"8 steps agree, {clipped} of them clipped")


if __name__ == "__main__":
    main()
