# y = (A * row_scale) @ x, A int8 with one scale per output row
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def gemv_w8(A, scale, x, y, BN: int = 16, BK: int = 128):
    N, K = T.const("N, K")
    A: T.Tensor[[N, K], T.int8]
    scale: T.Tensor[[N], T.float32]
    x: T.Tensor[[K], T.float32]
    y: T.Tensor[[N], T.float32]

    with T.Kernel(T.ceildiv(N, BN), threads=128) as bn:
        x_s = T.alloc_shared((BK,), T.float32)
        prod = T.alloc_fragment((BN, BK), T.float32)
        acc = T.alloc_fragment((BN,), T.float32)

        T.clear(acc)
        for ko in T.serial(T.ceildiv(K, BK)):
            for j in T.Parallel(BK):
                x_s[j] = T.if_then_else(ko * BK + j < K, x[ko * BK + j], 0.0)
            for i, j in T.Parallel(BN, BK):
                if bn * BN + i < N and ko * BK + j < K:
                    prod[i, j] = T.cast(A[bn * BN + i, ko * BK + j], "float32") * x_s[j]
                else:
                    prod[i, j] = 0.0
            T.reduce_sum(prod, acc, dim=1)

        for i in T.Parallel(BN):
            if bn * BN + i < N:
                y[bn * BN + i] = acc[i] * scale[bn * BN + i]


def quantize_rows(w):
    scale = w.abs().amax(dim=1) / 127.0
    return torch.round(w / scale[:, None]).to(torch.int8), scale


torch.manual_seed(11)
bad = 0
for N, K in [(64, 128), (50, 100), (33, 300), (96, 512)]:
    q, s = quantize_rows(torch.randn(N, K, device="cuda"))
    x = torch.randn(K, device="cuda")
    y = torch.empty(N, device="cuda")
    gemv_w8(q, s, x, y)
    want = (q.double() * s.double()[:, None]) @ x.double()
    ok = torch.allclose(y.double(), want, rtol=1e-4, atol=1e-3)
    print(f"N={N:4d} K={K:4d}  {'ok' if ok else 'MISMATCH'}  max diff {(y.double() - want).abs().max().item():.2e}")
    bad += not ok
if bad:
    raise SystemExit(1)
