"""One step of Lion, parameters and momentum in place, bfloat16 parameters."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def lion(n, lr, beta1, beta2, decay, block=512):
    @T.prim_func
    def main(
        P: T.Tensor((n,), "bfloat16"),
        G: T.Tensor((n,), "float32"),
        M: T.Tensor((n,), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, block), threads=128) as b:
            for i in T.Parallel(block):
                at = b * block + i
                if at < n:
                    mixed = beta1 * M[at] + (1.0 - beta1) * G[at]
                    sign = T.if_then_else(mixed > 0.0, 1.0, T.if_then_else(mixed < 0.0, -1.0, 0.0))
                    p = T.cast(P[at], "float32")
                    P[at] = p * (1.0 - lr * decay) - lr * sign
                    M[at] = beta2 * M[at] + (1.0 - beta2) * G[at]

    return main


if __name__ == "__main__":
    torch.manual_seed(204)
    n, lr, beta1, beta2, decay = 5000, 1e-2, 0.9, 0.99, 0.1
    p = torch.randn(n, device="cuda").bfloat16()
    g = torch.randn(n, device="cuda")
    m = torch.randn(n, device="cuda")
    want_p = p.float() * (1 - lr * decay) - lr * torch.sign(beta1 * m + (1 - beta1) * g)
    want_m = beta2 * m + (1 - beta2) * g
    lion(n, lr, beta1, beta2, decay)(p, g, m)
    ok = torch.allclose(p.float(), want_p, rtol=1e-2, atol=1e-4) and torch.allclose(m, want_m, rtol=1e-5, atol=1e-6)
    if not ok:
        raise SystemExit("lion step differs")
    print("lion ok")
