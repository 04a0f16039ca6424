import torch
import tilelang
import tilelang.language as T


def gemm_program(batch, M, N, K, BM=32, BN=32, BK=32, GROUP_M=4):
    """Ct[b] = (A[b] @ B[b].T).T, written (N, M); 1D grid with grouped rows, last group may be short."""
    num_m = (M + BM - 1) // BM
    num_n = (N + BN - 1) // BN

    @T.prim_func
    def gemm(
        A: T.Tensor((batch, M, K), "float16"),
        B: T.Tensor((batch, N, K), "float16"),
        Ct: T.Tensor((batch, N, M), "float32"),
    ):
        with T.Kernel(num_m * num_n, batch, threads=128) as (pid, b):
            a_s = T.alloc_shared((BM, BK), "float16")
            b_s = T.alloc_shared((BN, BK), "float16")
            acc = T.alloc_fragment((BN, BM), "float32")

            per_group = GROUP_M * num_n
            first = pid // per_group * GROUP_M
            rows = T.min(num_m - first, GROUP_M)
            pm = first + pid % rows
            pn = (pid - pid // per_group * per_group) // rows

            for ko in T.Pipelined(T.ceildiv(K, BK), num_stages=2):
                T.copy(A[b, pm * BM, ko * BK], a_s)
                T.copy(B[b, pn * BN, ko * BK], b_s)
                if ko == 0:
                    T.clear(acc)
                T.gemm(b_s, a_s, acc, transpose_B=True)
            T.copy(acc, Ct[b, pn * BN, pm * BM])

    return gemm


def main():
    torch.manual_seed(0)
    for batch, M, N, K in [(1, 64, 96, 64), (2, 225, 72, 40)]:
        program = gemm_program(batch, M, N, K)
        kernel = tilelang.compile(program, out_idx=[2])
        a = torch.randn(batch, M, K, device="cuda").half()
        b = torch.randn(batch, N, K, device="cuda").half()
        ct = kernel(a, b)
        ref = torch.einsum("bmk,bnk->bnm", a.float(), b.float())
        torch.testing.assert_close(ct, ref, rtol=1e-2, atol=5e-2)
    print("all shapes ok")


if __name__ == "__main__":
    main()
