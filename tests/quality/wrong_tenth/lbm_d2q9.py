"""D2Q9 lattice Boltzmann step on a periodic box, pull scheme, BGK collision."""
import numpy as np
import torch
import tilelang
import tilelang.language as T

# (cx, cy, weight)
D2Q9 = [
    (0, 0, 4 / 9),
    (1, 0, 1 / 9), (0, 1, 1 / 9), (-1, 0, 1 / 9), (0, -1, 1 / 9),
    (1, 1, 1 / 36), (-1, 1, 1 / 36), (-1, -1, 1 / 36), (1, -1, 1 / 36),
]  # fmt: skip


@tilelang.jit
def lbm_step(H, W, tau, block=16):
    omega = 1.0 / tau

    @T.prim_func
    def step(F_in: T.Tensor((9, H, W), "float32"), F_out: T.Tensor((9, H, W), "float32")):
        with T.Kernel(T.ceildiv(W, block), T.ceildiv(H, block), threads=256) as (bx, by):
            f = T.alloc_local((9,), "float32")
            for i, j in T.Parallel(block, block):
                y = by * block + i
                x = bx * block + j
                if y < H and x < W:
                    rho = T.alloc_var("float32")
                    ux = T.alloc_var("float32")
                    uy = T.alloc_var("float32")
                    rho = 0.0
                    ux = 0.0
                    uy = 0.0
                    for q, (cx, cy, _) in enumerate(D2Q9):
                        f[q] = F_in[q, (y + cy + H) % H, (x - cx + W) % W]
                        rho += f[q]
                        ux += cx * f[q]
                        uy += cy * f[q]
                    ux = ux / rho
                    uy = uy / rho
                    for q, (cx, cy, w) in enumerate(D2Q9):
                        cu = 3.0 * (cx * ux + cy * uy)
                        feq = w * rho * (1.0 + cu + 0.5 * cu * cu - 1.5 * (ux * ux + uy * uy))
                        F_out[q, y, x] = f[q] + omega * (feq - f[q])

    return step


def equilibrium(rho, ux, uy):
    out = []
    for cx, cy, w in D2Q9:
        cu = 3.0 * (cx * ux + cy * uy)
        out.append(w * rho * (1.0 + cu + 0.5 * cu**2 - 1.5 * (ux**2 + uy**2)))
    return np.stack(out)


def numpy_step(f, tau):
    f = np.stack([np.roll(f[q], (cy, cx), axis=(0, 1)) for q, (cx, cy, _) in enumerate(D2Q9)])
    rho = f.sum(0)
    ux = sum(cx * f[q] for q, (cx, _, _) in enumerate(D2Q9)) / rho
    uy = sum(cy * f[q] for q, (_, cy, _) in enumerate(D2Q9)) / rho
    return f + (equilibrium(rho, ux, uy) - f) / tau


def main(H=40, W=56, tau=0.8, steps=20):
    yy, xx = np.meshgrid(np.arange(H), np.arange(W), indexing="ij")
    ux = 0.05 * np.sin(2 * np.pi * yy / H) + 0.01 * np.cos(2 * np.pi * xx / W)
    uy = 0.04 * np.sin(2 * np.pi * xx / W)
    f = equilibrium(np.ones((H, W)), ux, uy)

    cur = torch.from_numpy(f.astype(np.float32)).to("cuda")
    nxt = torch.empty_like(cur)
    step = lbm_step(H, W, tau)
    for _ in range(steps):
        step(cur, nxt)
        cur, nxt = nxt, cur
        f = numpy_step(f, tau)

    got = cur.cpu().numpy()
    print("mass", got.sum(), "expected", f.sum())
    np.testing.assert_allclose(got, f, rtol=1e-4, atol=1e-6)
    print("fields agree")


if __name__ == "__main__":
    main()
