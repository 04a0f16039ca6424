"""out[seg[p], :] += val[p, :] for sorted seg, one block per run of CHUNK nonzeros (GNN aggregation)."""
import torch
import tilelang
import tilelang.language as T

CHUNK = 32


@tilelang.jit
def scale_rows(D: int, R: int):
    @T.prim_func
    def k(inp: T.Tensor((R, D), "float32"), deg: T.Tensor((R,), "int32"), out: T.Tensor((R, D), "float32")):
        with T.Kernel(R, threads=32) as r:
            for d in T.Parallel(D):
                out[r, d] = inp[r, d] / T.cast(T.max(deg[r], 1), "float32")

    return k


@tilelang.jit
def segment_sum(NNZ: int, R: int, D: int):
    @T.prim_func
    def k(
        val: T.Tensor((NNZ, D), "float32"),
        seg: T.Tensor((NNZ,), "int32"),
        out: T.Tensor((R, D), "float32"),
    ):
        with T.Kernel(T.ceildiv(NNZ, CHUNK), threads=32) as b:
            acc = T.alloc_fragment((D,), "float32")
            last = T.min(CHUNK, NNZ - b * CHUNK) - 1
            T.clear(acc)
            for p in T.serial(CHUNK):
                if p <= last:
                    for d in T.Parallel(D):
                        acc[d] = acc[d] + val[b * CHUNK + p, d]
                    if p == last:
                        for d in T.Parallel(D):
                            out[seg[b * CHUNK + p], d] = acc[d]  # BUG
                    else:
                        if seg[b * CHUNK + p] != seg[b * CHUNK + p + 1]:
                            for d in T.Parallel(D):
                                T.atomic_add(out[seg[b * CHUNK + p], d], acc[d])
                            T.clear(acc)

    return k


def mean_aggregate(val, seg, R):
    nnz, D = val.shape
    total = torch.zeros(R, D, device=val.device)
    segment_sum(nnz, R, D)(val, seg, total)
    deg = torch.bincount(seg.long(), minlength=R).int()
    out = torch.empty_like(total)
    scale_rows(D, R)(total, deg, out)
    return out


def reference(val, seg, R):
    total = torch.zeros(R, val.shape[1], device=val.device).index_add_(0, seg.long(), val)
    deg = torch.bincount(seg.long(), minlength=R).clamp(min=1)
    return total / deg[:, None]


if __name__ == "__main__":
    torch.manual_seed(0)
    R, D = 24, 32
    degrees = torch.randint(0, 7, (R,), device="cuda")
    degrees[5], degrees[17] = 130, 75  # two hub nodes
    seg = torch.repeat_interleave(torch.arange(R, device="cuda"), degrees).int()
    val = torch.randn(seg.numel(), D, device="cuda") + 1.0
    got, want = mean_aggregate(val, seg, R), reference(val, seg, R)
    bad = ((got - want).abs() > 1e-4).any(dim=1).nonzero().flatten().tolist()
    print("wrong rows:", bad)
    assert not bad
