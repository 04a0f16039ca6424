import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def splitk_linear(A, B, bias, Acc, split_k: int = 4, block_M: int = 32, block_N: int = 32, block_K: int = 32):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], T.float16]
    B: T.Tensor[[K, N], T.float16]
    bias: T.Tensor[[N], T.float32]
    Acc: T.Tensor[[M, N], T.float32]

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_k, threads=128) as (bx, by, bz):
        A_s = T.alloc_shared((block_M, block_K), T.float16)
        B_s = T.alloc_shared((block_K, block_N), T.float16)
        C_l = T.alloc_fragment((block_M, block_N), T.float32)
        k_tiles = T.ceildiv(K, block_K)
        per_split = T.ceildiv(k_tiles, split_k)

        # start from the bias instead of zero, saves an epilogue
        for i, j in T.Parallel(block_M, block_N):
            C_l[i, j] = bias[bx * block_N + j]  # BUG
        for t in T.serial(per_split):
            ko = bz * per_split + t
            if ko < k_tiles:
                T.copy(A[by * block_M, ko * block_K], A_s)
                T.copy(B[ko * block_K, bx * block_N], B_s)
                T.gemm(A_s, B_s, C_l)
        for i, j in T.Parallel(block_M, block_N):
            T.atomic_add(Acc[by * block_M + i, bx * block_N + j], C_l[i, j])


@tilelang.jit
def clamp_cast(Acc, limit: float = 6.0, block: int = 32):
    M, N = T.const("M N")
    Acc: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        tile = T.alloc_fragment((block, block), T.float32)
        T.copy(Acc[by * block, bx * block], tile)
        for i, j in T.Parallel(block, block):
            tile[i, j] = T.min(T.max(tile[i, j], 0.0), limit)
        T.copy(tile, Y[by * block, bx * block])
    return Y


def linear_relu6(a, b, bias):
    acc = torch.zeros(a.shape[0], b.shape[1], device=a.device, dtype=torch.float32)
    splitk_linear(a, b, bias, acc)
    return clamp_cast(acc)


def main():
    torch.manual_seed(0)
    M, N, K = 64, 64, 288
    a = torch.randn(M, K, device="cuda").half()
    b = (torch.randn(K, N, device="cuda") / K**0.5).half()
    bias = torch.randn(N, device="cuda") * 0.5
    y = linear_relu6(a, b, bias)
    ref = (a.float() @ b.float() + bias).clamp(0, 6)
    ok = torch.allclose(y.float(), ref, rtol=1e-2, atol=1e-2)
    print("split-k", "PASS" if ok else f"FAIL {(y.float() - ref).abs().max().item():.3f}")
    assert ok


if __name__ == "__main__":
    main()
