"""The devices that an architecture stands for: what `torch.cuda.get_device_properties` answers for it.

Compute-capability limits (shared memory, threads, registers) are those of the CUDA programming guide's table; counts
and sizes are those of one representative product. No value here is measured, and none may feed a measurement.
"""

from __future__ import annotations

import re
import types
from typing import Any, NamedTuple

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Product(NamedTuple):
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int
    l2: int
    shared_per_multiprocessor: int
    shared_per_block_optin: int
    threads_per_multiprocessor: int


PRODUCTS = {
    p.capability: p
    for p in (
        Product("Tesla V100-SXM2-32GB", (7, 0), 80, 32 * GIB, 6 * MIB, 96 * KIB, 96 * KIB, 2048),
        Product("Tesla T4", (7, 5), 40, 16 * GIB, 4 * MIB, 64 * KIB, 64 * KIB, 1024),
        Product("NVIDIA A100-SXM4-80GB", (8, 0), 108, 80 * GIB, 40 * MIB, 164 * KIB, 163 * KIB, 2048),
        Product("NVIDIA GeForce RTX 3090", (8, 6), 82, 24 * GIB, 6 * MIB, 100 * KIB, 99 * KIB, 1536),
        Product("NVIDIA GeForce RTX 4090", (8, 9), 128, 24 * GIB, 72 * MIB, 100 * KIB, 99 * KIB, 1536),
        Product("NVIDIA H100 80GB HBM3", (9, 0), 132, 80 * GIB, 50 * MIB, 228 * KIB, 227 * KIB, 2048),
        Product("NVIDIA B200", (10, 0), 148, 180 * GIB, 126 * MIB, 228 * KIB, 227 * KIB, 2048),
        Product("NVIDIA GeForce RTX 5090", (12, 0), 170, 32 * GIB, 96 * MIB, 100 * KIB, 99 * KIB, 1536),
    )
}


def capability(arch: str) -> tuple[int, int]:
    """`sm_90a` is (9, 0). Raises `ValueError` for what is no CUDA architecture."""
    match = re.fullmatch(r"sm_(\d+)(\d)[a-z]?", arch)
    if match is None:
        raise ValueError(f"no CUDA architecture: {arch!r}")
    return int(match[1]), int(match[2])


def product(arch: str) -> Product:
    """The product of an architecture, or the nearest older one's limits under the asked capability."""
    asked = capability(arch)
    older = [c for c in PRODUCTS if c <= asked] or [min(PRODUCTS)]
    return PRODUCTS[max(older)]._replace(capability=asked)


def properties(arch: str) -> Any:
    """An object with the attributes of `torch.cuda.get_device_properties(0)`."""
    device = product(arch)
    major, minor = device.capability
    return types.SimpleNamespace(
        name=f"{device.name} (virtual {arch})",
        major=major,
        minor=minor,
        multi_processor_count=device.multiprocessors,
        total_memory=device.memory,
        L2_cache_size=device.l2,
        shared_memory_per_block=48 * KIB,
        shared_memory_per_block_optin=device.shared_per_block_optin,
        shared_memory_per_multiprocessor=device.shared_per_multiprocessor,
        max_threads_per_multi_processor=device.threads_per_multiprocessor,
        max_threads_per_block=1024,
        regs_per_multiprocessor=65536,
        warp_size=32,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
        uuid="00000000-0000-0000-0000-000000000000",
        pci_bus_id=0,
        pci_device_id=0,
        pci_domain_id=0,
    )
