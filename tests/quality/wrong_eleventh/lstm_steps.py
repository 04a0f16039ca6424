"""LSTM layer, one launch per time step: c is updated in place, h alternates between two buffers."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def lstm_step(x, h, w_ih, w_hh, bias, c, h_next, BB: int = 16, BH: int = 16):
    B, I, H = T.const("B, I, H")
    x: T.Tensor[[B, I], T.float32]
    h: T.Tensor[[B, H], T.float32]
    w_ih: T.Tensor[[4, H, I], T.float32]
    w_hh: T.Tensor[[4, H, H], T.float32]
    bias: T.Tensor[[4, H], T.float32]
    c: T.Tensor[[B, H], T.float32]
    h_next: T.Tensor[[B, H], T.float32]

    with T.Kernel(T.ceildiv(H, BH), T.ceildiv(B, BB), threads=128) as (bh, bb):
        gates = T.alloc_fragment((4, BB, BH), T.float32)
        for g, i, j in T.Parallel(4, BB, BH):
            gates[g, i, j] = T.if_then_else(bh * BH + j < H, bias[g, T.min(bh * BH + j, H - 1)], 0.0)
        for k in T.serial(I):
            for g, i, j in T.Parallel(4, BB, BH):
                if bb * BB + i < B and bh * BH + j < H:
                    gates[g, i, j] += x[bb * BB + i, k] * w_ih[g, bh * BH + j, k]
        for k in T.serial(H):
            for g, i, j in T.Parallel(4, BB, BH):
                if bb * BB + i < B and bh * BH + j < H:
                    gates[g, i, j] += h[bb * BB + i, k] * w_hh[g, bh * BH + j, k]
        g_s = T.alloc_shared((4, BB, BH), T.float32)
        T.copy(gates, g_s)
        for i, j in T.Parallel(BB, BH):
            m, n = bb * BB + i, bh * BH + j
            if m < B and n < H:
                # torch order: input, forget, cell, output
                c[m, n] = T.sigmoid(g_s[1, i, j]) * c[m, n] + T.sigmoid(g_s[0, i, j]) * T.tanh(g_s[2, i, j])
                h_next[m, n] = T.sigmoid(g_s[3, i, j]) * T.tanh(c[m, n])


def run_layer(layer, xs):
    B, H = xs.shape[1], layer.hidden_size
    w_ih = layer.weight_ih_l0.detach().view(4, H, -1)
    w_hh = layer.weight_hh_l0.detach().view(4, H, H)
    bias = (layer.bias_ih_l0 + layer.bias_hh_l0).detach().view(4, H)
    c = torch.zeros(B, H, device=xs.device)
    buf = [torch.zeros(B, H, device=xs.device) for _ in range(2)]
    outs = []
    for t in range(xs.shape[0]):
        lstm_step(xs[t], buf[t % 2], w_ih, w_hh, bias, c, buf[(t + 1) % 2])
        outs.append(buf[(t + 1) % 2].clone())
    return torch.stack(outs), c


def worst(a, b):
    return (a - b).abs().max().item()


def main():
    torch.manual_seed(9)
    torch.backends.cudnn.allow_tf32 = False
    for steps, B, I, H in [(6, 16, 24, 32), (7, 5, 10, 21)]:
        layer = torch.nn.LSTM(I, H).to("cuda")
        xs = torch.randn(steps, B, I, device="cuda")
        with torch.no_grad():
            want, (_, want_c) = layer(xs)
        got, c = run_layer(layer, xs)
        e_h, e_c = worst(got, want), worst(c, want_c[0])
        print(f"T={steps} B={B} I={I} H={H}: h {e_h:.1e} c {e_c:.1e}")
        if max(e_h, e_c) > 2e-5:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
