"""AdamW on one flat parameter buffer, in place, against torch.optim.AdamW over several steps."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def adamw_step(p, g, m, v, hyper, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, block: int = 256):
    n = T.const("n")
    p: T.Tensor[[n], T.float32]
    g: T.Tensor[[n], T.float32]
    m: T.Tensor[[n], T.float32]
    v: T.Tensor[[n], T.float32]
    # lr, weight decay, 1 - beta1^t, 1 - beta2^t
    hyper: T.Tensor[[4], T.float32]

    with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
        for i in T.Parallel(block):
            idx = bx * block + i
            if idx < n:
                m[idx] = beta1 * m[idx] + (1.0 - beta1) * g[idx]
                v[idx] = beta2 * v[idx] + (1.0 - beta2) * g[idx] * g[idx]
                m_hat = m[idx] / hyper[2]
                v_hat = v[idx] / hyper[3]
                p[idx] = p[idx] * (1.0 - hyper[0] * hyper[1]) - hyper[0] * m_hat * T.rsqrt(v_hat + eps)


class FlatAdamW:
    def __init__(self, p, lr, weight_decay, betas=(0.9, 0.999), eps=1e-8):
        self.p, self.lr, self.wd, self.betas, self.eps = p, lr, weight_decay, betas, eps
        self.m = torch.zeros_like(p)
        self.v = torch.zeros_like(p)
        self.t = 0

    def step(self, g):
        self.t += 1
        b1, b2 = self.betas
        hyper = torch.tensor([self.lr, self.wd, 1 - b1**self.t, 1 - b2**self.t], device="cuda")
        adamw_step(self.p, g, self.m, self.v, hyper, beta1=b1, beta2=b2, eps=self.eps)


def compare(n, grad_scale, steps=5, lr=1e-2, wd=0.1):
    start = torch.randn(n, device="cuda")
    ours = FlatAdamW(start.clone(), lr, wd)
    theirs = torch.nn.Parameter(start.clone())
    opt = torch.optim.AdamW([theirs], lr=lr, weight_decay=wd, foreach=False)
    for _ in range(steps):
        g = grad_scale * torch.randn(n, device="cuda")
        ours.step(g)
        theirs.grad = g.clone()
        opt.step()
    moved = (theirs.detach() - start).norm()
    return ((ours.p - theirs.detach()).norm() / moved).item()


def main():
    torch.manual_seed(6)
    for n, scale in [(1024, 1.0), (1000, 0.3), (777, 2e-4)]:
        err = compare(n, scale)
        print(f"n={n} |g|~{scale:g}: error {err:.2e} of the distance moved")
        if err > 1e-3:
            raise SystemExit(1)


main()
