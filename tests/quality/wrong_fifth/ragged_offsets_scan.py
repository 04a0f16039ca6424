import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def counts_to_offsets_(Counts, Last, BLOCK: int = 128):
    rows, n = T.const("rows n")
    Counts: T.Tensor[[rows, n], T.int32]
    Last: T.Tensor[[rows], T.int32]

    with T.Kernel(rows, threads=BLOCK) as r:
        keep = T.alloc_shared((BLOCK,), T.int32)
        run = T.alloc_shared((BLOCK,), T.int32)
        carry = T.alloc_shared((1,), T.int32)
        for i in T.Parallel(1):
            carry[i] = 0
        for c in T.serial(T.ceildiv(n, BLOCK)):
            for i in T.Parallel(BLOCK):
                keep[i] = T.if_then_else(c * BLOCK + i < n, Counts[r, T.min(c * BLOCK + i, n - 1)], 0)
            T.copy(keep, run)
            T.cumsum(run, dim=0)
            # inclusive minus own count is the exclusive offset; written over the counts
            for i in T.Parallel(BLOCK):
                if c * BLOCK + i < n:
                    Counts[r, c * BLOCK + i] = run[i] - keep[i] + carry[0]
            for i in T.Parallel(1):
                carry[i] = carry[i] + run[BLOCK - 1]
        for i in T.Parallel(1):
            Last[r + i] = carry[i]


@tilelang.jit(out_idx=[1])
def pad_offsets(rows, n, align, BLOCK=128):
    @T.prim_func
    def pad(Offsets: T.Tensor((rows, n), "int32"), Padded: T.Tensor((rows, n), "int32")):
        with T.Kernel(T.ceildiv(n, BLOCK), rows, threads=BLOCK) as (bx, r):
            for i in T.Parallel(BLOCK):
                if bx * BLOCK + i < n:
                    Padded[r, bx * BLOCK + i] = T.ceildiv(Offsets[r, bx * BLOCK + i], align) * align

    return pad


def reference(counts, align):
    offs = torch.cumsum(counts, dim=1).to(torch.int32) - counts
    return offs, (offs + align - 1) // align * align, counts.sum(1).to(torch.int32)


def main():
    torch.manual_seed(0)
    rows, n, align = 5, 333, 16
    counts = torch.randint(0, 40, (rows, n), device="cuda", dtype=torch.int32)
    work = counts.clone()
    last = torch.empty(rows, device="cuda", dtype=torch.int32)
    counts_to_offsets_(work, last)
    padded = pad_offsets(rows, n, align)(work)
    ref_off, ref_pad, ref_last = reference(counts, align)
    assert torch.equal(work, ref_off), "offsets differ"
    assert torch.equal(padded, ref_pad), "padded offsets differ"
    assert torch.equal(last, ref_last), "row totals differ"
    print("offsets ok")


if __name__ == "__main__":
    main()
