"""y = W x for 4-bit weights, two nibbles per byte, one scale and one zero point per group of K.

Inside a group the zero point is factored out:
    sum_k s * (q_k - z) * x_k  =  s * (sum_k q_k * x_k  -  z * sum_k x_k)
"""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4])
def gemv_w4(N, K, group, block_N=32, threads=128):
    half = group // 2

    @T.prim_func
    def main(
        X: T.Tensor((K,), "float32"),
        Q: T.Tensor((N, K // 2), "uint8"),
        S: T.Tensor((N, K // group), "float32"),
        Z: T.Tensor((N, K // group), "float32"),
        Y: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), threads=threads) as bx:
            x_s = T.alloc_shared((group,), "float32")
            prod = T.alloc_fragment((block_N, half), "float32")
            xpair = T.alloc_fragment((block_N, half), "float32")
            dot = T.alloc_fragment((block_N,), "float32")
            xsum = T.alloc_fragment((block_N,), "float32")
            acc = T.alloc_fragment((block_N,), "float32")

            T.clear(acc)
            T.clear(xsum)
            for g in T.serial(K // group):
                for j in T.Parallel(group):
                    x_s[j] = X[g * group + j]
                for i, j in T.Parallel(block_N, half):
                    prod[i, j] = 0.0
                    if bx * block_N + i < N:
                        lo = Q[bx * block_N + i, g * half + j] & T.uint8(0x0F)
                        hi = Q[bx * block_N + i, g * half + j] >> T.uint8(4)
                        prod[i, j] = T.cast(lo, "float32") * x_s[2 * j] + T.cast(hi, "float32") * x_s[2 * j + 1]
                    xpair[i, j] = x_s[2 * j] + x_s[2 * j + 1]
                T.reduce_sum(prod, dot, dim=1)
                T.reduce_sum(xpair, xsum, dim=1, clear=False)
                for i in T.Parallel(block_N):
                    if bx * block_N + i < N:
                        acc[i] += S[bx * block_N + i, g] * (dot[i] - Z[bx * block_N + i, g] * xsum[i])
            for i in T.Parallel(block_N):
                if bx * block_N + i < N:
                    Y[bx * block_N + i] = acc[i]

    return main


def pack(q):
    return (q[:, 0::2] | (q[:, 1::2] << 4)).contiguous()


def reference(x, q, s, z, group):
    w = (q.float() - z.repeat_interleave(group, dim=1)) * s.repeat_interleave(group, dim=1)
    return w @ x


if __name__ == "__main__":
    torch.manual_seed(3)
    bad = 0
    for N, K, group in [(64, 64, 64), (96, 256, 64), (50, 384, 32)]:
        x = torch.randn(K, device="cuda")
        q = torch.randint(0, 16, (N, K), device="cuda", dtype=torch.uint8)
        s = torch.rand(N, K // group, device="cuda") * 0.1 + 0.02
        z = torch.randint(5, 11, (N, K // group), device="cuda").float()
        y = gemv_w4(N, K, group)(x, pack(q), s, z)
        ref = reference(x, q, s, z, group)
        err = ((y - ref).abs().max() / ref.abs().max()).item()
        print(f"N={N} K={K} group={group}: {err:.2e}")
        bad += not err < 1e-4
    raise SystemExit(1 if bad else 0)
