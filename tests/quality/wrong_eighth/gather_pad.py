import sys
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3])
def gather_mean(bags, bag_len, vocab, dim, BB=4, dtype="float32"):
    """mean of the table rows of a bag; ids outside of the table are padding"""

    @T.prim_func
    def main(
        Table: T.Tensor((vocab, dim), dtype),
        Ids: T.Tensor((bags, bag_len), "int32"),
        Scale: T.Tensor((vocab,), dtype),
        Out: T.Tensor((bags, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(bags, BB), threads=128) as bx:
            ids = T.alloc_shared((BB, bag_len), "int32")
            acc = T.alloc_fragment((BB, dim), dtype)
            cnt = T.alloc_fragment((BB, dim), dtype)
            for i, l in T.Parallel(BB, bag_len):
                ids[i, l] = T.if_then_else(bx * BB + i < bags, Ids[bx * BB + i, l], -1)
            T.clear(acc)
            T.clear(cnt)
            for l in T.serial(bag_len):
                for i, d in T.Parallel(BB, dim):
                    if ids[i, l] >= 0 and ids[i, l] < vocab:
                        acc[i, d] += Table[ids[i, l], d] * Scale[ids[i, l]]
                        cnt[i, d] += 1.0
            for i, d in T.Parallel(BB, dim):
                if bx * BB + i < bags:
                    Out[bx * BB + i, d] = acc[i, d] / T.max(cnt[i, d], 1.0)

    return main


def reference(table, ids, scale):
    ok = (ids >= 0) & (ids < table.shape[0])
    safe = torch.where(ok, ids, torch.zeros_like(ids)).long()
    rows = (table * scale[:, None])[safe] * ok[..., None]
    return rows.sum(1) / ok.sum(1, keepdim=True).clamp_min(1)


def main():
    torch.manual_seed(0)
    bags, bag_len, vocab, dim = 13, 7, 50, 32
    table = torch.randn(vocab, dim, device="cuda")
    scale = torch.rand(vocab, device="cuda") + 0.5
    ids = torch.randint(-20, vocab + 20, (bags, bag_len), device="cuda", dtype=torch.int32)
    ids[3] = -1
    ids[5] = vocab
    out = gather_mean(bags, bag_len, vocab, dim)(table, ids, scale)
    if not torch.allclose(out, reference(table, ids, scale), rtol=1e-4, atol=1e-5):
        print("gather mismatch")
        sys.exit(1)
    print("gather ok")


if __name__ == "__main__":
    main()
