"""C = A @ dequant(W).T for uint4 weights with per-group scales and packed uint4 zero points."""
import numpy as np
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def w4a16(A, Wq, Zq, Sc, C, group: int = 64, BM: int = 32, BN: int = 32, BK: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], T.float16]
    Wq: T.Tensor[[N, K // 2], T.uint8]
    Zq: T.Tensor[[K // group, N // 2], T.uint8]
    Sc: T.Tensor[[K // group, N], T.float16]
    C: T.Tensor[[M, N], T.float32]

    with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
        A_s = T.alloc_shared((BM, BK), T.float16)
        W_s = T.alloc_shared((BN, BK), T.float16)
        acc = T.alloc_fragment((BM, BN), T.float32)

        T.clear(acc)
        for ko in T.serial(K // BK):
            g = ko * BK // group
            T.copy(A[by * BM, ko * BK], A_s)
            for i, j in T.Parallel(BN, BK):
                n = bx * BN + i
                k = ko * BK + j
                q = T.cast(Wq[n, k // 2] >> T.cast((k % 2) * 4, "uint8"), "int32") & 15
                z = T.cast(Zq[g, n // 2] >> T.cast((k % 2) * 4, "uint8"), "int32") & 15
                W_s[i, j] = T.cast(T.cast(q - z, "float32") * T.cast(Sc[g, n], "float32"), "float16")
            T.gemm(A_s, W_s, acc, transpose_B=True)
        T.copy(acc, C[by * BM, bx * BN])


def pack_last(x):
    """Two 4-bit values per byte along the last axis, low nibble first."""
    return (x[..., 0::2] | (x[..., 1::2] << 4)).astype(np.uint8)


def quantize(w, group):
    n, k = w.shape
    wg = w.reshape(n, k // group, group)
    lo, hi = wg.min(-1), wg.max(-1)
    scale = ((hi - lo) / 15).astype(np.float16)
    zero = np.clip(np.rint(-lo / scale.astype(np.float32)), 0, 15).astype(np.uint8)
    q = np.rint(wg / scale.astype(np.float32)[..., None]) + zero[..., None]
    q = np.clip(q, 0, 15).astype(np.uint8).reshape(n, k)
    return q, zero.T.copy(), scale.T.copy()


def main():
    rng = np.random.default_rng(5)
    worst = 0.0
    for M, N, K, group in [(32, 64, 128, 64), (64, 96, 256, 128), (40, 64, 192, 32)]:
        # rows with their own offsets, so that the zero points differ
        w = rng.normal(size=(N, K)) * 0.1 + rng.uniform(-0.15, 0.15, size=(N, 1))
        q, zero, scale = quantize(w.astype(np.float32), group)
        a = rng.normal(size=(M, K)).astype(np.float16)

        dev = lambda t: torch.from_numpy(np.ascontiguousarray(t)).to("cuda")
        c = torch.empty(M, N, dtype=torch.float32, device="cuda")
        w4a16(dev(a), dev(pack_last(q)), dev(pack_last(zero)), dev(scale), c, group=group)

        rep = lambda t: np.repeat(t.T.astype(np.float32), group, axis=1)
        ref = a.astype(np.float32) @ ((q.astype(np.float32) - rep(zero)) * rep(scale)).T
        err = np.abs(c.cpu().numpy() - ref).max() / np.abs(ref).max()
        print(f"M={M} N={N} K={K} group={group}: {err:.2e}")
        worst = max(worst, err)
    assert worst < 2e-3, f"relative error {worst:.2e}"


if __name__ == "__main__":
    main()
