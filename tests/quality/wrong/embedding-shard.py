"""Lookup in one shard of a vocabulary-parallel embedding: tokens of other shards give zero rows."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def lookup(tokens, shard, dim, first, block=16):
    @T.prim_func
    def kernel(
        ids: T.Tensor((tokens,), "int32"),
        table: T.Tensor((shard, dim), "float16"),
        out: T.Tensor((tokens, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=128) as bx:
            for i, j in T.Parallel(block, dim):
                token = ids[bx * block + i]
                mine = (token >= first) and (token < first + shard)
                out[bx * block + i, j] = T.if_then_else(mine, table[token, j], 0)  # BUG

    return kernel


if __name__ == "__main__":
    torch.manual_seed(0)
    vocabulary, shards, dim, tokens = 512, 4, 64, 256
    shard = vocabulary // shards
    weight = torch.randn(vocabulary, dim, device="cuda", dtype=torch.float16)
    ids = torch.randint(0, vocabulary, (tokens,), device="cuda", dtype=torch.int32)
    total = torch.zeros(tokens, dim, device="cuda")
    for s in range(shards):
        total += lookup(tokens, shard, dim, s * shard)(ids, weight[s * shard : (s + 1) * shard].contiguous())
    torch.testing.assert_close(total.half(), weight[ids.long()], rtol=0, atol=0)
    print("embedding ok")
