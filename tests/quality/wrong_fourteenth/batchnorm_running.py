"""BatchNorm1d in training mode: normalises, and moves the running statistics in place, launch after launch."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def bn_train(M, C, momentum, eps, block_C=16, block_M=32):
    @T.macro
    def column_sums(tile, buf, out):
        for i, j in T.Parallel(block_C, block_M):
            buf[i, j] = tile[j, i]
        T.reduce_sum(buf, out, dim=1, clear=False)

    @T.prim_func
    def main(
        X: T.Tensor((M, C), "float32"),
        RunMean: T.Tensor((C,), "float32"),
        RunVar: T.Tensor((C,), "float32"),
        Y: T.Tensor((M, C), "float32"),
    ):
        with T.Kernel(T.ceildiv(C, block_C), threads=128) as bc:
            x_s = T.alloc_shared((block_M, block_C), "float32")
            buf = T.alloc_fragment((block_C, block_M), "float32")
            mean = T.alloc_fragment((block_C,), "float32")
            var = T.alloc_fragment((block_C,), "float32")

            T.clear(mean)
            for m in T.serial(T.ceildiv(M, block_M)):
                for i, j in T.Parallel(block_M, block_C):
                    r, c = m * block_M + i, bc * block_C + j
                    x_s[i, j] = T.if_then_else(r < M and c < C, X[r, c], 0.0)
                column_sums(x_s, buf, mean)
            for j in T.Parallel(block_C):
                mean[j] = mean[j] / M

            T.clear(var)
            for m in T.serial(T.ceildiv(M, block_M)):
                for i, j in T.Parallel(block_M, block_C):
                    r, c = m * block_M + i, bc * block_C + j
                    x_s[i, j] = T.if_then_else(r < M and c < C, (X[r, c] - mean[j]) * (X[r, c] - mean[j]), 0.0)
                column_sums(x_s, buf, var)

            # the running variance takes the unbiased estimate, the output the biased one
            for j in T.Parallel(block_C):
                c = bc * block_C + j
                if c < C:
                    RunMean[c] = (1.0 - momentum) * RunMean[c] + momentum * mean[j]
                    RunVar[c] = (1.0 - momentum) * RunVar[c] + momentum * (var[j] / (M - 1))
            for m in T.serial(T.ceildiv(M, block_M)):
                for i, j in T.Parallel(block_M, block_C):
                    r, c = m * block_M + i, bc * block_C + j
                    if r < M and c < C:
                        Y[r, c] = (X[r, c] - mean[j]) * T.rsqrt(var[j] / M + eps)

    return main


def main():
    torch.manual_seed(9)
    for C, batches in [(32, [64, 64]), (40, [50, 17, 3, 100])]:
        run_mean = torch.zeros(C, device="cuda")
        run_var = torch.ones(C, device="cuda")
        ref_mean, ref_var = run_mean.clone(), run_var.clone()
        for step, M in enumerate(batches):
            x = torch.randn(M, C, device="cuda") * (1 + step) + step
            y = torch.empty_like(x)
            bn_train(M, C, 0.1, 1e-5)(x, run_mean, run_var, y)
            y_ref = torch.nn.functional.batch_norm(x, ref_mean, ref_var, training=True, momentum=0.1, eps=1e-5)
            torch.testing.assert_close(y, y_ref, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(run_mean, ref_mean, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(run_var, ref_var, rtol=1e-5, atol=1e-5)
        print(f"C={C}: {len(batches)} batches ok")


if __name__ == "__main__":
    main()
