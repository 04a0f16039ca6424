"""k-th largest of every row by radix select: two passes of 8 bits over 16-bit keys, then the top-k mask."""
import torch
import tilelang
import tilelang.language as T

BITS = 8
RADIX = 1 << BITS


@tilelang.jit(out_idx=[1, 2])
def radix_topk(rows, cols, k, threads=128):
    @T.prim_func
    def main(
        Keys: T.Tensor((rows, cols), "int32"),
        Kth: T.Tensor((rows,), "int32"),
        Mask: T.Tensor((rows, cols), "int8"),
    ):
        with T.Kernel(rows, threads=threads) as row:
            hist = T.alloc_shared((RADIX,), "int32")
            keys = T.alloc_shared((cols,), "int32")
            prefix = T.alloc_local((1,), "int32")
            need = T.alloc_local((1,), "int32")
            seen = T.alloc_local((1,), "int32")
            digit = T.alloc_local((1,), "int32")

            for j in T.Parallel(cols):
                keys[j] = Keys[row, j]

            prefix[0] = 0
            need[0] = k
            for p in T.unroll(2):
                shift = (1 - p) * BITS
                for d in T.Parallel(RADIX):
                    hist[d] = 0
                for j in T.Parallel(cols):
                    # only the keys which agree with the digits chosen so far
                    if (keys[j] >> (shift + BITS)) == prefix[0]:
                        T.atomic_add(hist[(keys[j] >> shift) & (RADIX - 1)], 1)

                # from the largest digit down, until `need` keys are covered
                seen[0] = 0
                digit[0] = -1
                for e in T.serial(RADIX):
                    if digit[0] < 0:
                        seen[0] = seen[0] + hist[RADIX - 1 - e]
                        if seen[0] >= need[0]:
                            digit[0] = RADIX - 1 - e
                need[0] = need[0] - seen[0]
                prefix[0] = prefix[0] * RADIX + digit[0]

            for j in T.Parallel(cols):
                Mask[row, j] = T.if_then_else(keys[j] >= prefix[0], T.cast(1, "int8"), T.cast(0, "int8"))
            for r in T.Parallel(1):
                Kth[row + r] = prefix[0]

    return main


def make_keys(kind, rows, cols):
    if kind == "uniform":
        return torch.randint(0, 1 << 16, (rows, cols), dtype=torch.int32)
    if kind == "narrow":  # few distinct high bytes
        return torch.randint(0x7F00, 0x8100, (rows, cols), dtype=torch.int32)
    return torch.randint(0, 7, (rows, cols), dtype=torch.int32) * 0x1010


def main():
    torch.manual_seed(5)
    bad = []
    for kind, rows, cols, k in [("uniform", 6, 128, 1), ("uniform", 6, 200, 17), ("narrow", 4, 256, 40), ("ties", 5, 96, 30)]:
        keys = make_keys(kind, rows, cols).to("cuda")
        kth, mask = radix_topk(rows, cols, k)(keys)
        want = torch.topk(keys, k, dim=1).values[:, -1]
        want_mask = (keys >= want[:, None]).to(torch.int8)
        same = torch.equal(kth, want) and torch.equal(mask, want_mask)
        print(f"{kind:8s} {rows}x{cols} k={k}: {'ok' if same else f'got {kth.tolist()} want {want.tolist()}'}")
        if not same:
            bad.append(kind)
    assert not bad, f"wrong k-th key for {bad}"


if __name__ == "__main__":
    main()
