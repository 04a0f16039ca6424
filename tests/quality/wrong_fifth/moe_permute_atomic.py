import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def count_experts(Ids, Count, BS: int = 64):
    S, E = T.const("S, E")
    Ids: T.Tensor[[S], T.int32]
    Count: T.Tensor[[E], T.int32]
    with T.Kernel(T.ceildiv(S, BS), threads=64) as bx:
        for i in T.Parallel(BS):
            if bx * BS + i < S:
                T.atomic_add(Count[Ids[bx * BS + i]], 1)


@tilelang.jit
def scatter_rows(X, Ids, Cursor, Dest, Xp, TOPK: int, BD: int = 32):
    M, D, S, E = T.const("M D S E")
    X: T.Tensor[[M, D], T.float16]
    Ids: T.Tensor[[S], T.int32]
    Cursor: T.Tensor[[E], T.int32]
    Dest: T.Tensor[[S], T.int32]
    Xp: T.Tensor[[S, D], T.float16]
    with T.Kernel(S, threads=32) as s:
        where = T.alloc_shared((1,), T.int32)
        for i in T.Parallel(1):
            # rows of one expert land in any order; Dest remembers where
            where[i] = T.atomic_add(Cursor[Ids[s]], 1, return_prev=True)
            Dest[s] = where[i]
        for d0 in T.serial(T.ceildiv(D, BD)):
            for d in T.Parallel(BD):
                if d0 * BD + d < D:
                    Xp[where[0], d0 * BD + d] = X[s // TOPK, d0 * BD + d]


@tilelang.jit
def gather_sum(Xp, Dest, Wt, Y, TOPK: int, BD: int = 32):
    M, D, S = T.const("M D S")
    Xp: T.Tensor[[S, D], T.float16]
    Dest: T.Tensor[[S], T.int32]
    Wt: T.Tensor[[S], T.float32]
    Y: T.Tensor[[M, D], T.float32]
    with T.Kernel(M, T.ceildiv(D, BD), threads=32) as (m, bd):
        acc = T.alloc_fragment((BD,), T.float32)
        T.clear(acc)
        for k in T.serial(TOPK):
            for d in T.Parallel(BD):
                if bd * BD + d < D:
                    acc[d] += Wt[m * TOPK + k] * Xp[Dest[m * TOPK + k], bd * BD + d]
        T.copy(acc, Y[m, bd * BD])


def main():
    torch.manual_seed(2)
    M, D, E, K = 37, 80, 6, 3
    x = torch.randn(M, D, device="cuda").half()
    wt, idx = torch.randn(M, E, device="cuda").softmax(-1).topk(K, dim=-1)
    ids = idx.flatten().int()
    count = torch.zeros(E, dtype=torch.int32, device="cuda")
    count_experts(ids, count)
    cursor = (count.cumsum(0) - count).int()
    starts = cursor.clone()
    dest = torch.empty(M * K, dtype=torch.int32, device="cuda")
    xp = torch.empty(M * K, D, device="cuda").half()
    y = torch.empty(M, D, device="cuda")
    scatter_rows(x, ids, cursor, dest, xp, TOPK=K)
    gather_sum(xp, dest, wt.flatten().contiguous(), y, TOPK=K)

    assert torch.equal(count.long(), torch.bincount(idx.flatten(), minlength=E))
    assert torch.equal(cursor, starts + count)
    assert torch.equal(dest.sort().values, torch.arange(M * K, device="cuda").int())
    torch.testing.assert_close(y, x.float() * wt.sum(-1, keepdim=True), rtol=1e-3, atol=1e-3)
    print("permute / unpermute ok")


main()
