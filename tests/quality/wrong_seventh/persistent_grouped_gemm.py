import torch
import tilelang
import tilelang.language as T

NUM_SM = 6
GROUP_M = 4


@tilelang.jit
def persistent_matmul(M, N, K, block_M=32, block_N=32, block_K=32, dtype="float16", accum_dtype="float32"):
    tiles_m = (M + block_M - 1) // block_M
    tiles_n = (N + block_N - 1) // block_N
    total = tiles_m * tiles_n
    per_group = GROUP_M * tiles_n
    waves = (total + NUM_SM - 1) // NUM_SM

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), accum_dtype),
    ):
        with T.Kernel(NUM_SM, threads=128) as sm:
            A_s = T.alloc_shared((block_M, block_K), dtype)
            B_s = T.alloc_shared((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), accum_dtype)

            for w in T.serial(waves):
                tile = w * NUM_SM + sm
                if tile < total:
                    first_m = (tile // per_group) * GROUP_M
                    rows_in_group = T.min(tiles_m - first_m, GROUP_M)
                    local = tile % per_group
                    tm = first_m + local % rows_in_group
                    tn = local // GROUP_M  # BUG

                    T.clear(acc)
                    for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                        T.copy(A[tm * block_M, ko * block_K], A_s)
                        T.copy(B[tn * block_N, ko * block_K], B_s)
                        T.gemm(A_s, B_s, acc, transpose_B=True)
                    T.copy(acc, C[tm * block_M, tn * block_N])

    return main


def ref_program(a, b):
    return a.float() @ b.float().T


def main():
    torch.manual_seed(0)
    failed = []
    for M, N, K in [(128, 64, 64), (128, 96, 96), (160, 96, 64), (96, 128, 64), (200, 72, 80)]:
        a = torch.randn(M, K, device="cuda", dtype=torch.float16)
        b = torch.randn(N, K, device="cuda", dtype=torch.float16)
        c = torch.zeros(M, N, device="cuda", dtype=torch.float32)
        persistent_matmul(M, N, K)(a, b, c)
        ref = ref_program(a, b)
        err = (c - ref).abs().max().item()
        ok = torch.allclose(c, ref, rtol=1e-2, atol=1e-2)
        print(f"M={M} N={N} K={K} max_err={err:.4f} {'ok' if ok else 'MISMATCH'}")
        if not ok:
            failed.append((M, N, K))
    assert not failed, f"mismatch for shapes {failed}"


if __name__ == "__main__":
    main()
