import torch
import tilelang
import tilelang.language as T


def build(rows, L, tile=64):
    """Inclusive sum along each row that starts again wherever Head is set."""
    steps = tile.bit_length() - 1

    @T.prim_func
    def segscan(
        X: T.Tensor((rows, L), "float32"),
        Head: T.Tensor((rows, L), "int32"),
        Y: T.Tensor((rows, L), "float32"),
    ):
        with T.Kernel(rows, threads=tile) as r:
            val = T.alloc_shared((2, tile), "float32")
            seen = T.alloc_shared((2, tile), "int32")
            carry = T.alloc_shared((1,), "float32")

            for k in T.Parallel(1):
                carry[k] = 0.0
            for t in T.serial(T.ceildiv(L, tile)):
                for j in T.Parallel(tile):
                    if t * tile + j < L:
                        val[0, j] = X[r, t * tile + j]
                        seen[0, j] = Head[r, t * tile + j]
                    else:
                        val[0, j] = 0.0
                        seen[0, j] = 0

                for s in T.serial(steps):
                    for j in T.Parallel(tile):
                        src = s % 2
                        dst = (s + 1) % 2
                        off = 1 << s
                        left = T.max(j - off, 0)
                        joins = (j >= off) and (seen[src, j] == 0)
                        val[dst, j] = val[src, j] + T.if_then_else(joins, val[src, left], 0.0)
                        seen[dst, j] = seen[src, j] | T.if_then_else(j >= off, seen[src, left], 0)

                for j in T.Parallel(tile):
                    if t * tile + j < L:
                        open_left = Head[r, t * tile + j] == 0
                        val[steps % 2, j] += T.if_then_else(open_left, carry[0], 0.0)
                        Y[r, t * tile + j] = val[steps % 2, j]
                for k in T.Parallel(1):
                    carry[k] = val[steps % 2, tile - 1]

    return segscan


def reference(x, head):
    y = torch.empty_like(x)
    run = torch.zeros_like(x[:, 0])
    for j in range(x.shape[1]):
        run = torch.where(head[:, j] != 0, x[:, j], run + x[:, j])
        y[:, j] = run
    return y


def main():
    gen = torch.Generator().manual_seed(17)
    failed = []
    for rows, L, density in [(4, 64, 0.1), (6, 256, 0.0), (8, 200, 0.05), (3, 300, 1.0)]:
        # integers, so that the sums are exact
        x = torch.randint(-9, 10, (rows, L), generator=gen).float().to("cuda")
        head = (torch.rand(rows, L, generator=gen) < density).int().to("cuda")
        y = tilelang.compile(build(rows, L), out_idx=[2])(x, head)
        same = torch.equal(y, reference(x, head))
        print(f"rows={rows} L={L} density={density}:", "ok" if same else "MISMATCH")
        if not same:
            failed.append((rows, L, density))
    if failed:
        exit(1)


main()
