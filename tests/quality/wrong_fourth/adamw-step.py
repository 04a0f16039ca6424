"""One fused AdamW step on a flat parameter, state updated in place."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def adamw(n, lr, beta1, beta2, eps, decay, step, block=1024):
    bias1 = 1.0 - beta1**step
    bias2 = 1.0 - beta2**step

    @T.prim_func
    def main(
        P: T.Tensor((n,), "float32"),
        G: T.Tensor((n,), "float32"),
        M: T.Tensor((n,), "float32"),
        V: T.Tensor((n,), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, block), threads=128) as b:
            p = T.alloc_fragment((block,), "float32")
            g = T.alloc_fragment((block,), "float32")
            m = T.alloc_fragment((block,), "float32")
            v = T.alloc_fragment((block,), "float32")
            denom = T.alloc_fragment((block,), "float32")
            T.copy(P[b * block], p)
            T.copy(G[b * block], g)
            T.copy(M[b * block], m)
            T.copy(V[b * block], v)
            for i in T.Parallel(block):
                m[i] = beta1 * m[i] + (1.0 - beta1) * g[i]
                v[i] = beta2 * v[i] + (1.0 - beta2) * g[i] * g[i]
            for i in T.Parallel(block):
                denom[i] = T.sqrt(v[i]) / bias2 + eps  # BUG
            for i in T.Parallel(block):
                p[i] = p[i] * (1.0 - lr * decay) - lr / bias1 * m[i] / denom[i]
            T.copy(p, P[b * block])
            T.copy(m, M[b * block])
            T.copy(v, V[b * block])

    return main


if __name__ == "__main__":
    torch.manual_seed(6)
    n, steps = 4096, 3
    lr, betas, eps, decay = 1e-2, (0.9, 0.99), 1e-8, 0.1
    param = torch.randn(n, device="cuda")
    theirs = torch.nn.Parameter(param.clone())
    optimizer = torch.optim.AdamW([theirs], lr=lr, betas=betas, eps=eps, weight_decay=decay)
    m, v = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
    for step in range(1, steps + 1):
        grad = torch.randn(n, device="cuda")
        adamw(n, lr, betas[0], betas[1], eps, decay, step)(param, grad, m, v)
        theirs.grad = grad.clone()
        optimizer.step()
    torch.testing.assert_close(param, theirs.detach(), rtol=1e-4, atol=1e-5)
    print("adamw ok")
