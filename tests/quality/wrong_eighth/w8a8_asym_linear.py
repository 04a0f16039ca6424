import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def qlinear(Aq, Wq, SW, ZW, sa: float, za: int, BLK: int = 32, BK: int = 64):
    M, N, K = T.const("M, N, K")
    Aq: T.Tensor[[M, K], T.int8]
    Wq: T.Tensor[[N, K], T.int8]
    SW: T.Tensor[[N], T.float32]
    ZW: T.Tensor[[N], T.int32]
    Y = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(N, BLK), T.ceildiv(M, BLK), threads=128) as (bx, by):
        a8 = T.alloc_shared((BLK, BK), T.int8)
        w8 = T.alloc_shared((BLK, BK), T.int8)
        a16 = T.alloc_shared((BLK, BK), T.float16)
        w16 = T.alloc_shared((BLK, BK), T.float16)
        zw = T.alloc_shared((BLK,), T.int32)
        sw = T.alloc_shared((BLK,), T.float32)
        acc = T.alloc_fragment((BLK, BLK), T.float32)
        for j in T.Parallel(BLK):
            zw[j] = T.if_then_else(bx * BLK + j < N, ZW[bx * BLK + j], 0)
            sw[j] = T.if_then_else(bx * BLK + j < N, SW[bx * BLK + j], 0.0)
        T.clear(acc)
        for k in T.serial(T.ceildiv(K, BK)):
            T.copy(Aq[by * BLK, k * BK], a8)
            T.copy(Wq[bx * BLK, k * BK], w8)
            for i, kk in T.Parallel(BLK, BK):
                a16[i, kk] = T.cast(T.cast(a8[i, kk], T.int32) - za, T.float16)  # BUG
                w16[i, kk] = T.cast(T.cast(w8[i, kk], T.int32) - zw[i], T.float16)  # BUG
            T.gemm(a16, w16, acc, transpose_B=True)
        for i, j in T.Parallel(BLK, BLK):
            acc[i, j] = acc[i, j] * (sa * sw[j])
        T.copy(acc, Y[by * BLK, bx * BLK])
    return Y


def quantize_act(x):
    lo, hi = x.min().item(), x.max().item()
    s = (hi - lo) / 255.0
    z = int(round(-128 - lo / s))
    return (x / s + z).round().clamp(-128, 127).to(torch.int8), s, z


def quantize_weight(w):
    lo, hi = w.amin(1), w.amax(1)
    s = (hi - lo) / 255.0
    z = (-128 - lo / s).round()
    q = (w / s[:, None] + z[:, None]).round().clamp(-128, 127)
    return q.to(torch.int8), s.float().contiguous(), z.to(torch.int32)


def max_rel(got, want):
    return ((got - want).abs().max() / want.abs().max()).item()


def main():
    torch.manual_seed(2)
    failures = 0
    for M, N, K in [(64, 64, 128), (40, 72, 192), (32, 64, 200)]:
        x = torch.rand(M, K, device="cuda") * 3.0 - 0.5
        w = torch.randn(N, K, device="cuda") + 0.3
        aq, sa, za = quantize_act(x)
        wq, sw, zw = quantize_weight(w)
        y = qlinear(aq, wq, sw, zw, sa, za)
        ref = ((aq.double() - za) * sa) @ ((wq.double() - zw[:, None]) * sw.double()[:, None]).T
        err = max_rel(y.double(), ref)
        status = "pass" if err < 1e-3 else "FAIL"
        failures += status == "FAIL"
        print(f"M={M} N={N} K={K}: max rel err {err:.2e} {status}")
    if failures:
        raise SystemExit(f"{failures} shape(s) failed")


if __name__ == "__main__":
    main()
