"""Mean of the embeddings of each bag; bags are slices of one list of ids and may be empty."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[3])
def embedding_bag(vocab, dim, ids, bags):
    @T.prim_func
    def main(
        Table: T.Tensor((vocab, dim), "float32"),
        Ids: T.Tensor((ids,), "int32"),
        Offsets: T.Tensor((bags + 1,), "int32"),
        Out: T.Tensor((bags, dim), "float32"),
    ):
        with T.Kernel(bags, threads=64) as b:
            acc = T.alloc_fragment((dim,), "float32")
            T.clear(acc)
            for t in T.serial(Offsets[b + 1] - Offsets[b]):
                for d in T.Parallel(dim):
                    acc[d] += Table[Ids[Offsets[b] + t], d]
            for d in T.Parallel(dim):
                Out[b, d] = acc[d] / T.cast(T.max(Offsets[b + 1] - Offsets[b], 1), "float32")

    return main


torch.manual_seed(205)
vocab, dim = 100, 64
lengths = torch.tensor([3, 0, 7, 1, 12, 5, 0, 4])
offsets = torch.cat((torch.zeros(1, dtype=torch.long), lengths.cumsum(0))).to("cuda")
ids = torch.randint(0, vocab, (int(lengths.sum()),), device="cuda")
table = torch.randn(vocab, dim, device="cuda")
out = embedding_bag(vocab, dim, ids.numel(), lengths.numel())(table, ids.int(), offsets.int())
ref = F.embedding_bag(ids, table, offsets[:-1], mode="mean")
torch.testing.assert_close(out, ref, rtol=1e-5, atol=1e-6)
print("embedding bag ok")
