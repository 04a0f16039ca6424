import torch
import tilelang
import tilelang.language as T

ALPHA, GAMMA = 0.25, 2.0


@tilelang.jit(out_idx=[2, 3])
def focal_fwd_bwd(n, classes, alpha, gamma, BM=8, BC=64):
    """Sigmoid focal loss per row and its gradient in one pass (mean over rows * classes is up to the caller)."""

    @T.prim_func
    def main(
        X: T.Tensor((n, classes), "float32"),
        Y: T.Tensor((n, classes), "float32"),
        RowLoss: T.Tensor((n,), "float32"),
        dX: T.Tensor((n, classes), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, BM), threads=128) as bx:
            loss = T.alloc_fragment((BM, BC), "float32")
            part = T.alloc_fragment((BM,), "float32")
            total = T.alloc_fragment((BM,), "float32")
            T.clear(total)
            for cb in T.serial(T.ceildiv(classes, BC)):
                T.clear(loss)
                for i, j in T.Parallel(BM, BC):
                    r = bx * BM + i
                    c = cb * BC + j
                    if r < n and c < classes:
                        # z is the logit of the true side, so pt = sigmoid(z)
                        sign = 2.0 * Y[r, c] - 1.0
                        z = X[r, c] * sign
                        pt = 1.0 / (1.0 + T.exp(-z))
                        logpt = T.min(z, 0.0) - T.log(1.0 + T.exp(-T.max(z, -z)))
                        at = alpha * Y[r, c] + (1.0 - alpha) * (1.0 - Y[r, c])
                        focus = T.pow(1.0 - pt, gamma)
                        loss[i, j] = -at * focus * logpt
                        dX[r, c] = sign * at * focus * (gamma * logpt + pt - 1.0)  # BUG
                T.reduce_sum(loss, part, dim=1)
                for i in T.Parallel(BM):
                    total[i] += part[i]
            for i in T.Parallel(BM):
                if bx * BM + i < n:
                    RowLoss[bx * BM + i] = total[i]

    return main


def torch_focal(x, y):
    p = torch.sigmoid(x)
    ce = torch.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none")
    pt = p * y + (1 - p) * (1 - y)
    at = ALPHA * y + (1 - ALPHA) * (1 - y)
    return (at * (1 - pt) ** GAMMA * ce).sum(dim=1)


torch.manual_seed(0)
n, classes = 20, 90
x = torch.randn(n, classes, device="cuda") * 2
y = (torch.rand(n, classes, device="cuda") < 0.1).float()

row, dx = focal_fwd_bwd(n, classes, ALPHA, GAMMA)(x, y)

xr = x.clone().requires_grad_()
ref = torch_focal(xr, y)
ref.sum().backward()
torch.testing.assert_close(row, ref.detach(), rtol=1e-4, atol=1e-4)
torch.testing.assert_close(dx, xr.grad, rtol=1e-3, atol=1e-4)
print("focal loss and gradient ok")
