"""Y[rows of g] = X[rows of g] @ W[g]^T for ragged, packed groups (MoE expert layer)."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def grouped_linear(total, padded, G, N, K, block_M=32, block_N=32, block_K=32):
    @T.prim_func
    def main(
        X: T.Tensor((total, K), "float16"),
        W: T.Tensor((G, N, K), "float16"),
        Sizes: T.Tensor((G,), "int32"),
        Off: T.Tensor((G,), "int32"),
        PadOff: T.Tensor((G,), "int32"),
        Y: T.Tensor((total, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), padded // block_M, threads=128) as (bn, bm):
            X_s = T.alloc_shared((block_M, block_K), "float16")
            W_s = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            expert = T.alloc_local((1,), "int32")

            # every group starts on a tile boundary of the padded row space
            pad_row = bm * block_M
            expert[0] = 0
            for g in T.serial(G):
                if pad_row >= PadOff[g]:
                    expert[0] = g
            e = expert[0]
            row0 = Off[e] + (pad_row - PadOff[e])
            valid = T.min(block_M, Off[e] + Sizes[e] - pad_row)

            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                for i, j in T.Parallel(block_M, block_K):
                    X_s[i, j] = T.if_then_else(
                        row0 + i < total and k * block_K + j < K, X[row0 + i, k * block_K + j], T.cast(0, "float16")
                    )
                T.copy(W[e, bn * block_N, k * block_K], W_s)
                T.gemm(X_s, W_s, acc, transpose_B=True)

            for i, j in T.Parallel(block_M, block_N):
                if i < valid and bn * block_N + j < N:
                    Y[row0 + i, bn * block_N + j] = acc[i, j]

    return main


def layout(sizes, block_M, device):
    s = torch.tensor(sizes, dtype=torch.int32)
    p = (s + block_M - 1) // block_M * block_M
    off = torch.cumsum(s, 0) - s
    poff = torch.cumsum(p, 0) - p
    return [t.to(torch.int32).to(device) for t in (s, off, poff)], int(p.sum())


def run(sizes, N, K):
    total, G = sum(sizes), len(sizes)
    x = torch.randn(total, K, device="cuda").half()
    w = (torch.randn(G, N, K, device="cuda") / K**0.5).half()
    (s, off, poff), padded = layout(sizes, 32, x.device)
    y = torch.zeros(total, N, device="cuda").half()
    grouped_linear(total, padded, G, N, K)(x, w, s, off, poff, y)

    ref = torch.cat([xi.float() @ wi.float().t() for xi, wi in zip(x.split(sizes), w)])
    torch.testing.assert_close(y.float(), ref, rtol=1e-2, atol=1e-2)
    print(sizes, "ok")


if __name__ == "__main__":
    torch.manual_seed(0)
    run([64, 32, 96], N=64, K=64)
    run([64, 50, 0, 33, 64], N=80, K=96)
