"""Multi-hash embedding: every id sums K rows picked by seeded 32-bit mixing (murmur3 finalizer)."""
import numpy as np
import torch
import tilelang
import tilelang.language as T

SEEDS = (0x9E3779B9, 0x7F4A7C15, 0x85EBCA6B)


def u32(v):
    return T.cast(v, "uint32")


def mix(h):
    h = (h ^ (h >> u32(16))) * u32(0x85EBCA6B)
    h = (h ^ (h >> u32(13))) * u32(0xC2B2AE35)
    return h ^ (h >> u32(16))


@tilelang.jit(out_idx=[2, 3])
def hashed_lookup(n, buckets, D, block=16):
    @T.prim_func
    def lookup(
        Ids: T.Tensor((n,), "int32"),
        Table: T.Tensor((buckets, D), "float32"),
        Slots: T.Tensor((n, len(SEEDS)), "int32"),
        Out: T.Tensor((n, D), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, block), threads=128) as b:
            slot = T.alloc_shared((block, len(SEEDS)), "int32")
            for i in T.Parallel(block):
                if b * block + i < n:
                    for k, seed in enumerate(SEEDS):
                        h = mix(u32(Ids[b * block + i]) + u32(seed))
                        slot[i, k] = T.cast(h % u32(buckets), "int32")
                        Slots[b * block + i, k] = slot[i, k]
                else:
                    for k in range(len(SEEDS)):
                        slot[i, k] = 0
            for i, d in T.Parallel(block, D):
                if b * block + i < n:
                    acc = T.alloc_var("float32")
                    acc = 0.0
                    for k in T.serial(len(SEEDS)):
                        acc += Table[slot[i, k], d]
                    Out[b * block + i, d] = acc

    return lookup


def numpy_slots(ids, buckets):
    cols = []
    for seed in SEEDS:
        h = ids.astype(np.uint32) + np.uint32(seed)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        h = h ^ (h >> np.uint32(16))
        cols.append((h % np.uint32(buckets)).astype(np.int32))
    return np.stack(cols, 1)


def main():
    rng = np.random.default_rng(4)
    for n, buckets, D in [(64, 128, 32), (100, 97, 24), (3, 5, 8)]:
        ids = rng.integers(-(2**31), 2**31, n).astype(np.int32)
        table = rng.standard_normal((buckets, D)).astype(np.float32)
        slots, out = hashed_lookup(n, buckets, D)(
            torch.from_numpy(ids).to("cuda"), torch.from_numpy(table).to("cuda")
        )
        want = numpy_slots(ids, buckets)
        assert (slots.cpu().numpy() == want).all(), "hash"
        np.testing.assert_allclose(out.cpu().numpy(), table[want].sum(1), rtol=1e-5, atol=1e-5)
        print(f"n={n} buckets={buckets}: hash load {len(np.unique(want))}/{buckets}")


if __name__ == "__main__":
    main()
