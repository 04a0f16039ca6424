"""h[t] = decay * h[t - 1] + x[t], the diagonal recurrence of a state space model, one block per group of channels."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def recurrence(length, channels, block=64):
    @T.prim_func
    def kernel(
        x: T.Tensor((length, channels), "float32"),
        decay: T.Tensor((channels,), "float32"),
        y: T.Tensor((length, channels), "float32"),
    ):
        with T.Kernel(T.ceildiv(channels, block), threads=64) as bx:
            a = T.alloc_fragment((block,), "float32")
            state = T.alloc_fragment((block,), "float32")
            fresh = T.alloc_fragment((block,), "float32")
            T.copy(decay[bx * block], a)
            T.clear(state)
            for t in T.serial(length):
                for c in T.Parallel(block):
                    fresh[c] = a[c] * state[c] + x[t, bx * block + c]
                T.copy(state, y[t, bx * block])  # BUG
                T.copy(fresh, state)

    return kernel


def reference(x, decay):
    state = torch.zeros_like(x[0])
    states = []
    for row in x:
        state = decay * state + row
        states.append(state)
    return torch.stack(states)


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(96, 128, device="cuda")
    decay = torch.sigmoid(torch.randn(128, device="cuda"))
    y = recurrence(96, 128)(x, decay)
    assert (y - reference(x, decay)).abs().max() < 1e-4
    print("recurrence ok")
