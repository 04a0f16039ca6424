import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def grouped_gemm(total, padded_total, groups, N, K, block_M=32, block_N=32, block_K=32, dtype="float16"):
    @T.prim_func
    def kernel(
        A: T.Tensor((total, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        C: T.Tensor((total, N), "float32"),
        sizes: T.Tensor((groups,), "int32"),
        offsets: T.Tensor((groups,), "int32"),
        padded_offsets: T.Tensor((groups,), "int32"),
    ):
        with T.Kernel(padded_total // block_M, T.ceildiv(N, block_N), threads=128) as (bx, by):
            A_s = T.alloc_shared((block_M, block_K), dtype)
            B_s = T.alloc_shared((block_K, block_N), dtype)
            C_l = T.alloc_fragment((block_M, block_N), "float32")
            g = T.alloc_var("int32")
            row0 = T.alloc_var("int32")
            rows = T.alloc_var("int32")

            g = 0
            for e in T.serial(groups):
                if bx * block_M >= padded_offsets[e]:
                    g = e
            row0 = bx * block_M - padded_offsets[g] + offsets[g]
            rows = T.max(0, T.min(block_M, offsets[g] + sizes[g] - bx * block_M))  # BUG

            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[row0 : row0 + block_M, k * block_K : (k + 1) * block_K], A_s)
                T.copy(B[g, k * block_K : (k + 1) * block_K, by * block_N : (by + 1) * block_N], B_s)
                T.gemm(A_s, B_s, C_l)

            for i, j in T.Parallel(block_M, block_N):
                if i < rows and by * block_N + j < N:
                    C[row0 + i, by * block_N + j] = C_l[i, j]

    return kernel


def make_layout(group_sizes, block_M, device):
    sizes = torch.tensor(group_sizes, dtype=torch.int32)
    padded = (sizes + block_M - 1) // block_M * block_M
    offsets = (torch.cumsum(sizes, 0) - sizes).int()
    padded_offsets = (torch.cumsum(padded, 0) - padded).int()
    return [t.to(device) for t in (sizes, offsets, padded_offsets)], int(padded.sum())


def grouped_ref(a, b, group_sizes):
    outs, start = [], 0
    for g, n in enumerate(group_sizes):
        outs.append(a[start : start + n].float() @ b[g].float())
        start += n
    return torch.cat(outs)


if __name__ == "__main__":
    torch.manual_seed(0)
    group_sizes = [40, 0, 64, 23, 50]
    N, K, block_M = 64, 96, 32
    total = sum(group_sizes)
    (sizes, offsets, padded_offsets), padded_total = make_layout(group_sizes, block_M, "cuda")

    a = torch.randn(total, K, device="cuda").half()
    b = torch.randn(len(group_sizes), K, N, device="cuda").half()
    c = torch.zeros(total, N, device="cuda")
    grouped_gemm(total, padded_total, len(group_sizes), N, K, block_M=block_M)(a, b, c, sizes, offsets, padded_offsets)
    torch.testing.assert_close(c, grouped_ref(a, b, group_sizes), rtol=1e-2, atol=1e-2)
    print("grouped gemm matches")
