"""Column mean and variance over a stream of batches: the state (count, mean, M2) stays on the device,
every launch merges one more batch into it in place."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def make_update(C, max_rows, block_C=32, block_R=16):
    @T.prim_func
    def update(
        X: T.Tensor((max_rows, C), "float32"),
        rows: T.int32,
        count: T.Tensor((C,), "float32"),
        mean: T.Tensor((C,), "float32"),
        m2: T.Tensor((C,), "float32"),
    ):
        with T.Kernel(T.ceildiv(C, block_C), threads=64) as bc:
            tile = T.alloc_fragment((block_R, block_C), "float32")
            s = T.alloc_fragment((block_C,), "float32")
            mu = T.alloc_fragment((block_C,), "float32")
            sq = T.alloc_fragment((block_C,), "float32")

            T.clear(s)
            for r in T.serial(T.ceildiv(max_rows, block_R)):
                for i, c in T.Parallel(block_R, block_C):
                    tile[i, c] = 0.0
                    if r * block_R + i < rows and bc * block_C + c < C:
                        tile[i, c] = X[r * block_R + i, bc * block_C + c]
                T.reduce_sum(tile, s, dim=0, clear=False)
            n = T.cast(rows, "float32")
            for c in T.Parallel(block_C):
                mu[c] = s[c] / T.max(n, 1.0)

            T.clear(sq)
            for r in T.serial(T.ceildiv(max_rows, block_R)):
                for i, c in T.Parallel(block_R, block_C):
                    tile[i, c] = 0.0
                    if r * block_R + i < rows and bc * block_C + c < C:
                        tile[i, c] = (X[r * block_R + i, bc * block_C + c] - mu[c]) * (
                            X[r * block_R + i, bc * block_C + c] - mu[c]
                        )
                T.reduce_sum(tile, sq, dim=0, clear=False)

            for c in T.Parallel(block_C):
                if bc * block_C + c < C and rows > 0:
                    # m2 and mean still need the old count and the old mean: count goes last
                    m2[bc * block_C + c] += sq[c] + (mu[c] - mean[bc * block_C + c]) * (mu[c] - mean[bc * block_C + c]) * (
                        count[bc * block_C + c] * n / (count[bc * block_C + c] + n)
                    )
                    mean[bc * block_C + c] += (mu[c] - mean[bc * block_C + c]) * n / (count[bc * block_C + c] + n)
                    count[bc * block_C + c] += n

    return update


class Moments:
    def __init__(self, C, max_rows):
        self.kernel = make_update(C, max_rows)
        self.max_rows = max_rows
        self.count, self.mean, self.m2 = (torch.zeros(C, device="cuda") for _ in range(3))

    def push(self, batch):
        # the buffer keeps stale rows after the batch on purpose
        buf = torch.full((self.max_rows, batch.shape[1]), 1e6, device="cuda")
        buf[: len(batch)] = batch
        self.kernel(buf, len(batch), self.count, self.mean, self.m2)


def main():
    torch.manual_seed(5)
    for C, max_rows, sizes in [(32, 32, [32, 32]), (50, 40, [40, 1, 0, 17, 33])]:
        stat, seen = Moments(C, max_rows), []
        for step, n in enumerate(sizes):
            batch = torch.randn(n, C, device="cuda") * (1 + step) + 10.0 * step
            stat.push(batch)
            seen.append(batch)
            x = torch.cat(seen).double()
            torch.testing.assert_close(stat.count, torch.full((C,), float(len(x)), device="cuda"))
            torch.testing.assert_close(stat.mean, x.mean(0).float(), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(stat.m2 / len(x), x.var(0, unbiased=False).float(), rtol=1e-4, atol=1e-5)
        print(f"C={C}: {len(sizes)} launches ok")


if __name__ == "__main__":
    main()
