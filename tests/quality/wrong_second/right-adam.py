"""One step of Adam, in place."""

import tilelang
import tilelang.language as T
import torch

BETA1, BETA2, LR, EPS = 0.9, 0.999, 1e-2, 1e-8


@tilelang.jit
def adam(n, step, block=256):
    fix1 = 1.0 - BETA1**step
    fix2 = 1.0 - BETA2**step

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
            T.copy(P[b * block], p)
            T.copy(G[b * block], g)
            T.copy(M[b * block], m)
            T.copy(V[b * block], v)
            for i in T.Parallel(block):
                v[i] = BETA2 * v[i] + (1.0 - BETA2) * g[i] * g[i]
                m[i] = BETA1 * m[i] + (1.0 - BETA1) * g[i]
                p[i] = p[i] - LR * (m[i] / fix1) / (T.sqrt(v[i] / fix2) + EPS)
            T.copy(p, P[b * block])
            T.copy(m, M[b * block])
            T.copy(v, V[b * block])

    return main


def reference(p, g, m, v, step):
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * g * g
    return p - LR * (m / (1 - BETA1**step)) / ((v / (1 - BETA2**step)).sqrt() + EPS), m, v


if __name__ == "__main__":
    torch.manual_seed(14)
    n, step = 2001, 2
    p, g, m = (torch.randn(n, device="cuda") for _ in range(3))
    v = torch.rand(n, device="cuda")
    expected = reference(p, g, m, v, step)
    adam(n, step)(p, g, m, v)
    for name, got, want in zip(("p", "m", "v"), (p, m, v), expected):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, msg=lambda text: f"{name}: {text}")
    print("adam ok")
