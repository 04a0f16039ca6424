# EmbeddingBag, mode="max": ragged bags given by offsets, one block per bag and slice of D.
import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T

FLT_MIN = 1.17549435e-38


def make_bag_max(n_emb, D, bags, total, block_D=32):
    @T.prim_func
    def bag_max(
        Table: T.Tensor((n_emb, D), "float32"),
        Idx: T.Tensor((total,), "int64"),
        Offs: T.Tensor((bags,), "int64"),
        Out: T.Tensor((bags, D), "float32"),
        Arg: T.Tensor((bags, D), "int64"),
    ):
        with T.Kernel(bags, T.ceildiv(D, block_D), threads=block_D) as (b, bd):
            best = T.alloc_fragment((block_D,), "float32")
            arg = T.alloc_fragment((block_D,), "int64")
            end = T.alloc_var("int64")
            end = total
            if b + 1 < bags:
                end = Offs[b + 1]

            T.fill(best, FLT_MIN)
            T.fill(arg, -1)
            for p in T.serial(end - Offs[b]):
                row = Idx[Offs[b] + p]
                for d in T.Parallel(block_D):
                    if bd * block_D + d < D:
                        val = Table[row, bd * block_D + d]
                        if val > best[d]:
                            best[d] = val
                            arg[d] = row
            for d in T.Parallel(block_D):
                if bd * block_D + d < D:
                    # an empty bag gives 0
                    Out[b, bd * block_D + d] = T.if_then_else(end > Offs[b], best[d], 0.0)
                    Arg[b, bd * block_D + d] = arg[d]

    return bag_max


def main():
    torch.manual_seed(99)
    n_emb, D = 200, 48
    table = torch.randn(n_emb, D, device="cuda")
    sizes = torch.tensor([12, 0, 20, 3, 9, 1, 0, 15], device="cuda")
    offs = sizes.cumsum(0) - sizes
    idx = torch.randint(0, n_emb, (int(sizes.sum()),), device="cuda")

    fn = tilelang.compile(make_bag_max(n_emb, D, len(sizes), len(idx)), out_idx=[3, 4])
    out, arg = fn(table, idx, offs)
    ref = F.embedding_bag(idx, table, offs, mode="max")

    filled = sizes > 0
    torch.testing.assert_close(out, ref, rtol=0, atol=0)
    torch.testing.assert_close(table.gather(0, arg[filled]), ref[filled], rtol=0, atol=0)
    print("ok")


if __name__ == "__main__":
    main()
