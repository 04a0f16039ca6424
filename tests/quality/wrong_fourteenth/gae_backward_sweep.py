import numpy as np
import torch
import tilelang
import tilelang.language as T

# Generalised advantage estimation: walks each trajectory from its end, and overwrites the rewards with the returns.


def gae_kernel(steps, envs, gamma, lam, block=64):
    @T.prim_func
    def gae(
        Reward: T.Tensor((steps, envs), "float32"),  # in: rewards, out: returns
        Value: T.Tensor((steps + 1, envs), "float32"),
        Done: T.Tensor((steps, envs), "int8"),
        Adv: T.Tensor((steps, envs), "float32"),
    ):
        with T.Kernel(T.ceildiv(envs, block), threads=block) as be:
            last = T.alloc_fragment((block,), "float32")
            alive = T.alloc_fragment((block,), "float32")
            T.clear(last)
            for back in T.serial(steps):
                t = steps - 1 - back
                for i in T.Parallel(block):
                    e = be * block + i
                    if e < envs:
                        alive[i] = T.if_then_else(Done[t, e] != 0, 0.0, 1.0)
                        # what follows a finished episode belongs to the next one
                        last[i] = (
                            Reward[t, e]
                            + gamma * Value[t + 1, e] * alive[i]
                            - Value[t, e]
                            + gamma * lam * alive[i] * last[i]
                        )
                        Adv[t, e] = last[i]
                        Reward[t, e] = last[i] + Value[t, e]

    return gae


def gae_numpy(reward, value, done, gamma, lam):
    adv = np.zeros_like(reward, dtype=np.float64)
    acc = np.zeros(reward.shape[1])
    for t in reversed(range(reward.shape[0])):
        go = 1.0 - done[t]
        acc = reward[t] + gamma * go * value[t + 1] - value[t] + gamma * lam * go * acc
        adv[t] = acc
    return adv, adv + value[:-1]


def worst(a, b):
    return float(np.max(np.abs(a - b) / (1.0 + np.abs(b))))


rng = np.random.default_rng(12)
for steps, envs, gamma, lam in [(32, 64, 0.99, 0.95), (75, 50, 0.9, 1.0), (1, 130, 0.99, 0.0)]:
    reward = rng.standard_normal((steps, envs)).astype(np.float32)
    value = rng.standard_normal((steps + 1, envs)).astype(np.float32)
    done = rng.random((steps, envs)) < 0.1
    want_adv, want_ret = gae_numpy(reward, value, done, gamma, lam)

    ret = torch.tensor(reward, device="cuda")
    adv = torch.zeros(steps, envs, device="cuda")
    kernel = tilelang.compile(gae_kernel(steps, envs, gamma, lam))
    kernel(ret, torch.tensor(value, device="cuda"), torch.tensor(done, dtype=torch.int8, device="cuda"), adv)
    e1, e2 = worst(adv.cpu().numpy(), want_adv), worst(ret.cpu().numpy(), want_ret)
    print(f"steps={steps} envs={envs}: advantage {e1:.1e}, return {e2:.1e}")
    if max(e1, e2) > 2e-5:
        raise SystemExit("GAE does not match")
