"""A small image pipeline on the GPU: black level, 3x3 blur, color matrix, gamma, histogram; each stage a kernel.

Checks the gamma stage against PyTorch, or with STAGE=NAME another, or STAGE=all every one of them.
"""
import os
import time
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLUR = (0.0625, 0.125, 0.0625, 0.125, 0.25, 0.125, 0.0625, 0.125, 0.0625)


@dataclass
class Settings:
    height: int = 512
    width: int = 768
    block_h: int = 16
    block_w: int = 64
    threads: int = 128
    black: float = 0.02
    gamma: float = 2.2
    bins: int = 64

    @property
    def shape(self):
        return (3, self.height, self.width)


@tilelang.jit
def black_level(img, level: float, block_H: int, block_W: int, threads: int = 128):
    C, H, W = T.const("C, H, W")
    img: T.Tensor((C, H, W), T.float16)
    out = T.empty((C, H, W), T.float16)

    with T.Kernel(T.ceildiv(W, block_W), T.ceildiv(H, block_H), C, threads=threads) as (bx, by, c):
        tile = T.alloc_fragment((block_H, block_W), T.float32)
        T.copy(img[c, by * block_H : (by + 1) * block_H, bx * block_W : (bx + 1) * block_W], tile)
        for i, j in T.Parallel(block_H, block_W):
            tile[i, j] = T.max(tile[i, j] - level, 0.0) / (1.0 - level)
        T.copy(tile, out[c, by * block_H : (by + 1) * block_H, bx * block_W : (bx + 1) * block_W])

    return out


@tilelang.jit(out_idx=[-1])
def blur3x3(C, H, W, block_H, block_W, threads=128):
    @T.prim_func
    def blur(
        padded: T.Tensor((C, H + 2, W + 2), T.float16),
        weights: T.Tensor((9,), T.float32),
        out: T.Tensor((C, H, W), T.float16),
    ):
        with T.Kernel(T.ceildiv(W, block_W), T.ceildiv(H, block_H), C, threads=threads) as (bx, by, c):
            acc = T.alloc_fragment((block_H, block_W), T.float32)
            T.clear(acc)
            for t in T.serial(9):
                for i, j in T.Parallel(block_H, block_W):
                    acc[i, j] += weights[t] * padded[c, by * block_H + i + t // 3, bx * block_W + j + t % 3]
            T.copy(acc, out[c, by * block_H, bx * block_W])

    return blur


@tilelang.jit
def color_matrix(img, matrix, block_W: int, threads: int = 128):
    H, W = T.const("H, W")
    img: T.Tensor((3, H, W), T.float16)
    matrix: T.Tensor((3, 3), T.float32)
    out = T.empty((3, H, W), T.float16)

    with T.Kernel(T.ceildiv(W, block_W), H, threads=threads) as (bx, y):
        row = T.alloc_fragment((block_W,), T.float32)
        for c in T.serial(3):
            T.clear(row)
            for k in T.serial(3):
                for j in T.Parallel(block_W):
                    row[j] += matrix[c, k] * img[k, y, bx * block_W + j]
            for j in T.Parallel(block_W):
                out[c, y, bx * block_W + j] = row[j]

    return out


@tilelang.jit
def gamma_correct(img, gain, block_H: int, block_W: int, gamma: float = 2.2, threads: int = 128):
    C, H, W = T.const("C, H, W")
    img: T.Tensor((C, H, W), T.float16)
    gain: T.Tensor((C,), T.float16)
    out = T.empty((C, H, W), T.float16)

    with T.Kernel(T.ceildiv(W, block_W), T.ceildiv(H, block_H), C, threads=threads) as (bx, by, c):
        tile = T.alloc_fragment((block_H, block_W), T.float16)
        T.copy(img[c, by * block_H : (by + 1) * block_H, bx * block_W : (bx + 1) * block_W], tile)
        for i, j in T.Parallel(block_H, block_W):
            tile[i, j] = T.max(tile[i, j] * gain[c], T.float16(0))
        for i, j in T.Parallel(block_H, block_W):
            tile[i, j] = T.pow(tile[i, j], T.float16(1.0 / gamma))
        for i, j in T.Parallel(block_H, block_W):
            tile[i, j] = T.min(tile[i, j], T.float16(1))
        T.copy(tile, out[c, by * block_H : (by + 1) * block_H, bx * block_W : (bx + 1) * block_W])

    return out


@tilelang.jit(out_idx=[-1])
def row_means(C, H, W, block_H, dtype=T.float16, threads=128):
    @T.prim_func
    def means(img: T.Tensor((C, H, W), dtype), out: T.Tensor((C, H), T.float32)):
        with T.Kernel(T.ceildiv(H, block_H), C, threads=threads) as (by, c):
            rows = T.alloc_fragment((block_H, W), T.float32)
            total = T.alloc_fragment((block_H,), T.float32)
            T.copy(img[c, by * block_H, 0], rows)
            T.reduce_sum(rows, total, dim=1)
            for i in T.Parallel(block_H):
                out[c, by * block_H + i] = total[i] / W

    return means


def ref_black(img, level):
    return ((img.float() - level).clamp(min=0) / (1 - level)).half()


def ref_blur(img):
    kernel = torch.tensor(BLUR, device=img.device).reshape(1, 1, 3, 3)
    return F.conv2d(img.float()[:, None], kernel, padding=1)[:, 0].half()


def ref_gamma(img, gain, gamma):
    return (img.float() * gain.float()[:, None, None]).clamp(min=0).pow(1.0 / gamma).clamp(max=1).half()


def make_image(settings: Settings):
    torch.manual_seed(0)
    return torch.rand(*settings.shape, device=DEVICE, dtype=torch.float16)


def check_black(settings, img):
    out = black_level(img, settings.black, settings.block_h, settings.block_w, settings.threads)
    torch.testing.assert_close(out, ref_black(img, settings.black), rtol=1e-2, atol=1e-2)


def check_blur(settings, img):
    kernel = blur3x3(*settings.shape, settings.block_h, settings.block_w, settings.threads)
    out = kernel(F.pad(img, (1, 1, 1, 1)), torch.tensor(BLUR, device=DEVICE))
    torch.testing.assert_close(out, ref_blur(img), rtol=1e-2, atol=1e-2)


def check_color(settings, img):
    matrix = torch.tensor([[1.2, -0.1, -0.1], [-0.1, 1.2, -0.1], [-0.1, -0.1, 1.2]], device=DEVICE)
    out = color_matrix(img, matrix, 128, settings.threads)
    ref = torch.einsum("ck,khw->chw", matrix, img.float()).half()
    torch.testing.assert_close(out, ref, rtol=1e-2, atol=1e-2)


def check_gamma(settings, img):
    gain = torch.tensor([1.1, 1.0, 0.9], device=DEVICE, dtype=torch.float16)
    out = gamma_correct(img, gain, settings.block_h, settings.block_w, settings.gamma, settings.threads)
    torch.testing.assert_close(out, ref_gamma(img, gain, settings.gamma), rtol=1e-2, atol=1e-2)


def check_means(settings, img):
    out = row_means(*settings.shape, settings.block_h)(img)
    torch.testing.assert_close(out, img.float().mean(-1), rtol=1e-2, atol=1e-2)


STAGES: dict[str, Callable] = {
    "black": check_black,
    "blur": check_blur,
    "color": check_color,
    "gamma": check_gamma,
    "means": check_means,
}


def main():
    wanted = os.environ.get("STAGE", "gamma")
    settings = Settings()
    img = make_image(settings)
    for name, check in STAGES.items():
        if wanted not in (name, "all"):
            continue
        started = time.perf_counter()
        check(settings, img)
        print(f"{name:8} ok in {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
