import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def bgemm_tn(batch, M, N, K, BM=32, BN=32, BK=32, GROUP_M=4, threads=128):
    """C[b] = At[b].T @ B[b].T with At stored (K, M) and B stored (N, K); tiles in groups of rows for L2 reuse."""
    num_m = (M + BM - 1) // BM
    num_n = (N + BN - 1) // BN

    @T.prim_func
    def kernel(
        At: T.Tensor((batch, K, M), "float16"),
        B: T.Tensor((batch, N, K), "float16"),
        C: T.Tensor((batch, M, N), "float32"),
    ):
        with T.Kernel(num_m * num_n, batch, threads=threads) as (pid, b):
            a_s = T.alloc_shared((BK, BM), "float16")
            b_s = T.alloc_shared((BN, BK), "float16")
            acc = T.alloc_fragment((BM, BN), "float32")

            per_group = GROUP_M * num_n
            first_m = pid // per_group * GROUP_M
            rows = T.min(num_m - first_m, GROUP_M)
            pm = first_m + (pid % per_group) % rows
            pn = (pid % per_group) // GROUP_M  # BUG

            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(K, BK), num_stages=2):
                T.copy(At[b, ko * BK, pm * BM], a_s)
                T.copy(B[b, pn * BN, ko * BK], b_s)
                T.gemm(a_s, b_s, acc, transpose_A=True, transpose_B=True)
            T.copy(acc, C[b, pm * BM, pn * BN])

    return kernel


def make(batch, M, N, K):
    at = torch.randn(batch, K, M, device="cuda").half()
    b = torch.randn(batch, N, K, device="cuda").half()
    return at, b


def report(c, ref):
    bad = ~torch.isclose(c, ref, rtol=1e-2, atol=5e-2)
    where = bad.nonzero()
    print(f"{int(bad.sum())} bad of {bad.numel()}", where[:3].tolist() if len(where) else "")
    return int(bad.sum()) == 0


if __name__ == "__main__":
    torch.manual_seed(0)
    good = True
    for batch, M, N, K in [(1, 128, 64, 64), (2, 180, 72, 40)]:
        at, b = make(batch, M, N, K)
        c = bgemm_tn(batch, M, N, K)(at, b)
        good = report(c, at.float().transpose(1, 2) @ b.float().transpose(1, 2)) and good
    assert good, "bgemm_tn differs from torch"
