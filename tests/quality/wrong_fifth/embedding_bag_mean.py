import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit
def embedding_bag(Table, Idx, Offsets, Out, MAXLEN: int, PAD: int = 0, BD: int = 32):
    V, D, L, NB = T.const("V D L NB")
    Table: T.Tensor[[V, D], T.float32]
    Idx: T.Tensor[[L], T.int32]
    Offsets: T.Tensor[[NB], T.int32]
    Out: T.Tensor[[NB, D], T.float32]

    with T.Kernel(NB, T.ceildiv(D, BD), threads=32) as (bag, bd):
        acc = T.alloc_fragment((BD,), T.float32)
        live = T.alloc_fragment((BD,), T.float32)
        beg = Offsets[bag]
        # no closing offset: the last bag runs to the end of the index list
        end = T.if_then_else(bag + 1 < NB, Offsets[T.min(bag + 1, NB - 1)], L)
        T.clear(acc)
        T.clear(live)
        for p in T.serial(MAXLEN):
            if beg + p < end:
                row = Idx[beg + p]
                for d in T.Parallel(BD):
                    if row != PAD and bd * BD + d < D:
                        acc[d] += Table[row, bd * BD + d]
                    live[d] += 1.0  # BUG
        for d in T.Parallel(BD):
            if bd * BD + d < D:
                Out[bag, bd * BD + d] = acc[d] / T.max(live[d], 1.0)


def bag_mean(table, idx, offsets, pad):
    ends = torch.cat([offsets[1:], offsets.new_tensor([idx.numel()])])
    maxlen = int((ends - offsets).max())
    out = torch.empty(offsets.numel(), table.shape[1], device=table.device)
    embedding_bag(table, idx.int(), offsets.int(), out, MAXLEN=maxlen, PAD=pad)
    return out


def main():
    torch.manual_seed(11)
    V, D, pad = 50, 48, 0
    lens = [3, 1, 0, 7, 5, 2, 9, 4]
    idx = torch.randint(0, V, (sum(lens),), device="cuda")
    idx[torch.tensor([1, 6, 7, 14, 20, 29], device="cuda")] = pad
    offsets = torch.tensor([0] + lens[:-1], device="cuda").cumsum(0)
    table = torch.randn(V, D, device="cuda")

    got = bag_mean(table, idx, offsets, pad)
    want = F.embedding_bag(idx, table, offsets, mode="mean", padding_idx=pad)
    worst = (got - want).abs().amax(dim=1)
    for b, w in enumerate(worst.tolist()):
        print(f"bag {b} len {lens[b]}: {w:.2e}")
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
