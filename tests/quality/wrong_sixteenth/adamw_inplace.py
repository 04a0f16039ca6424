"""Fused AdamW on flat buckets: fp32 master weights and moments in place, half copy of the weights written out."""
import copy

import torch
import tilelang
import tilelang.language as T

LR, B1, B2, EPS, WD = 1e-2, 0.9, 0.98, 1e-8, 0.1


@tilelang.jit
def adamw(numel, block=256, threads=128):
    @T.prim_func
    def step(
        P: T.Tensor((numel,), "float32"),
        Grad: T.Tensor((numel,), "float32"),
        M: T.Tensor((numel,), "float32"),
        V: T.Tensor((numel,), "float32"),
        Half: T.Tensor((numel,), "float16"),
        Corr: T.Tensor((2,), "float32"),
        Clip: T.Tensor((1,), "float32"),
    ):
        with T.Kernel(T.ceildiv(numel, block), threads=threads) as bx:
            m = T.alloc_fragment((block,), "float32")
            v = T.alloc_fragment((block,), "float32")
            p = T.alloc_fragment((block,), "float32")
            for i in T.Parallel(block):
                if bx * block + i < numel:
                    g = Grad[bx * block + i] * Clip[0]
                    m[i] = B1 * M[bx * block + i] + (1.0 - B1) * g
                    v[i] = B2 * V[bx * block + i] + (1.0 - B2) * g * g
            for i in T.Parallel(block):
                if bx * block + i < numel:
                    p[i] = P[bx * block + i] * (1.0 - LR * WD)
                    p[i] = p[i] - LR * (m[i] / Corr[0]) / (T.sqrt(v[i] / Corr[1]) + EPS)
            for i in T.Parallel(block):
                if bx * block + i < numel:
                    M[bx * block + i] = m[i]
                    V[bx * block + i] = v[i]
                    P[bx * block + i] = p[i]
                    Half[bx * block + i] = T.cast(p[i], "float16")

    return step


class Bucket:
    """Parameters of one optimizer, packed into a flat buffer; the state lives on over the launches."""

    def __init__(self, params):
        self.shapes = [p.shape for p in params]
        self.master = torch.cat([p.detach().flatten() for p in params]).clone()
        self.m = torch.zeros_like(self.master)
        self.v = torch.zeros_like(self.master)
        self.half = torch.zeros_like(self.master, dtype=torch.float16)
        self.t = 0
        self.kernel = adamw(self.master.numel())

    def step(self, grads, max_norm):
        flat = torch.cat([g.flatten() for g in grads])
        # as clip_grad_norm_ does it
        clip = (max_norm / (flat.norm() + 1e-6)).clamp(max=1.0).reshape(1)
        self.t += 1
        corr = torch.tensor([1 - B1**self.t, 1 - B2**self.t], device=flat.device)
        self.kernel(self.master, flat, self.m, self.v, self.half, corr, clip)

    def views(self):
        sizes = [s.numel() for s in self.shapes]
        return [c.view(s) for c, s in zip(self.master.split(sizes), self.shapes)]


def trial(shapes, steps, max_norm):
    torch.manual_seed(len(shapes))
    params = [torch.nn.Parameter(torch.randn(s, device="cuda")) for s in shapes]
    bucket = Bucket(copy.deepcopy(params))
    opt = torch.optim.AdamW(params, lr=LR, betas=(B1, B2), eps=EPS, weight_decay=WD)
    for t in range(steps):
        for p in params:
            p.grad = torch.randn_like(p) * (1 + t)
        bucket.step([p.grad.clone() for p in params], max_norm)
        torch.nn.utils.clip_grad_norm_(params, max_norm)
        opt.step()
        for ours, theirs in zip(bucket.views(), params):
            torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=2e-6)
    assert torch.equal(bucket.half, bucket.master.half())
    print(f"{len(shapes)} tensors, {bucket.master.numel()} values, {steps} steps: ok")


if __name__ == "__main__":
    trial([(16, 16)], 3, 1e9)
    trial([(33, 7), (33,), (5, 5, 3)], 6, 4.0)
    trial([(1,), (300,), (2, 129), (64,)], 4, 1.0)
