import argparse

import torch
import tilelang
import tilelang.language as T


def csr_spmm(rows, K, N, nnz, chunk=16, block_N=64):
    @T.prim_func
    def spmm(
        indptr: T.Tensor((rows + 1,), "int32"),
        indices: T.Tensor((nnz,), "int32"),
        data: T.Tensor((nnz,), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((rows, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), rows, threads=64) as (bx, r):
            col = T.alloc_shared((chunk,), "int32")
            val = T.alloc_shared((chunk,), "float32")
            acc = T.alloc_fragment((block_N,), "float32")
            T.clear(acc)
            begin = indptr[r]
            end = indptr[r + 1]
            for t in T.serial(T.ceildiv(end - begin, chunk)):
                for i in T.Parallel(chunk):
                    p = begin + t * chunk + i
                    if p < nnz:  # BUG
                        col[i] = indices[p]
                        val[i] = data[p]
                    else:
                        col[i] = 0
                        val[i] = 0.0
                for i in T.serial(chunk):
                    for j in T.Parallel(block_N):
                        acc[j] += val[i] * B[col[i], bx * block_N + j]
            for j in T.Parallel(block_N):
                C[r, bx * block_N + j] = acc[j]

    return spmm


def random_csr(rows, cols, density, device):
    dense = torch.randn(rows, cols, device=device)
    dense = torch.where(torch.rand(rows, cols, device=device) < density, dense, torch.zeros_like(dense))
    dense[rows // 2] = 0
    rr, cc = dense.nonzero(as_tuple=True)
    counts = torch.bincount(rr, minlength=rows)
    indptr = torch.zeros(rows + 1, dtype=torch.int32, device=device)
    indptr[1:] = counts.cumsum(0).to(torch.int32)
    return dense, indptr, cc.to(torch.int32), dense[rr, cc].contiguous()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--k", type=int, default=80)
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--density", type=float, default=0.25)
    args = parser.parse_args()

    torch.manual_seed(7)
    dense, indptr, indices, data = random_csr(args.rows, args.k, args.density, "cuda")
    b = torch.randn(args.k, args.n, device="cuda")
    program = csr_spmm(args.rows, args.k, args.n, data.numel())
    kernel = tilelang.compile(program, out_idx=-1, target="cuda")
    c = kernel(indptr, indices, data, b)
    torch.testing.assert_close(c, dense @ b, rtol=1e-3, atol=1e-3)
    print("spmm ok, nnz =", data.numel())


if __name__ == "__main__":
    main()
