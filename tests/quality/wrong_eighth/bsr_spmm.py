import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[4])
def bsr_spmm(nbr, nbc, nnzb, N, BS=16, BN=32, rows_per_cta=2):
    @T.prim_func
    def main(
        Indptr: T.Tensor((nbr + 1,), "int32"),
        Indices: T.Tensor((nnzb,), "int32"),
        Vals: T.Tensor((nnzb, BS, BS), "float16"),
        X: T.Tensor((nbc * BS, N), "float16"),
        Y: T.Tensor((nbr * BS, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(nbr, rows_per_cta), threads=64) as (bx, by):
            v_s = T.alloc_shared((BS, BS), "float16")
            x_s = T.alloc_shared((BS, BN), "float16")
            acc = T.alloc_fragment((BS, BN), "float32")
            T.clear(acc)  # BUG
            for r in T.serial(rows_per_cta):  # BUG
                row = by * rows_per_cta + r
                if row < nbr:
                    lo = Indptr[row]
                    hi = Indptr[row + 1]
                    for t in T.serial(hi - lo):
                        col = Indices[lo + t]
                        T.copy(Vals[lo + t, 0, 0], v_s)
                        T.copy(X[col * BS, bx * BN], x_s)
                        T.gemm(v_s, x_s, acc)
                    T.copy(acc, Y[row * BS, bx * BN])

    return main


def random_bsr(nbr, nbc, density, bs=16):
    mask = torch.rand(nbr, nbc) < density
    mask[1] = False
    mask[0, 0] = True
    indptr = torch.zeros(nbr + 1, dtype=torch.int32)
    indptr[1:] = mask.sum(1).cumsum(0).int()
    rows, cols = mask.nonzero(as_tuple=True)
    vals = torch.randn(len(cols), bs, bs).half()
    dense = torch.zeros(nbr * bs, nbc * bs)
    for r, c, v in zip(rows.tolist(), cols.tolist(), vals):
        dense[r * bs : (r + 1) * bs, c * bs : (c + 1) * bs] = v.float()
    return indptr.cuda(), cols.int().cuda(), vals.cuda(), dense.cuda()


def test_bsr(nbr, nbc, N, density):
    indptr, indices, vals, dense = random_bsr(nbr, nbc, density)
    x = torch.randn(nbc * 16, N).half().cuda()
    y = bsr_spmm(nbr, nbc, indices.numel(), N)(indptr, indices, vals, x)
    torch.testing.assert_close(y, dense @ x.float(), rtol=1e-2, atol=1e-2)


if __name__ == "__main__":
    torch.manual_seed(4)
    test_bsr(5, 6, 64, 0.4)
    test_bsr(8, 8, 48, 0.3)
    print("bsr spmm: all good")
