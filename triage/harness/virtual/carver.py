"""What tilelang's carver asks CUDA about the device, answered from the table of devices."""

from __future__ import annotations

import sys
import types
from typing import Any

from . import devices
from .patching import replace_everywhere

#: cudaDeviceAttr numbers that tilelang asks for
THREADS_PER_BLOCK, REGISTERS_PER_BLOCK, SHARED_PER_MULTIPROCESSOR, PERSISTING_L2 = 1, 12, 81, 108


def install(arch: str) -> None:
    properties = devices.properties(arch)
    attributes = {
        THREADS_PER_BLOCK: properties.max_threads_per_block,
        REGISTERS_PER_BLOCK: properties.regs_per_multiprocessor,
        SHARED_PER_MULTIPROCESSOR: properties.shared_memory_per_multiprocessor,
        PERSISTING_L2: properties.L2_cache_size * 5 // 8,
    }
    driver: Any = sys.modules.get("tilelang.carver.arch.driver.cuda_driver")
    original = getattr(driver, "get_device_attribute", None)
    if original is not None:
        replace_everywhere("tilelang", "get_device_attribute", original, lambda attr, device_id=0: attributes.get(attr))
        original = driver.get_cuda_device_properties
        replace_everywhere("tilelang", "get_cuda_device_properties", original, lambda device_id=0: properties)
    tvm = sys.modules["tvm"]
    original_device = tvm.runtime.cuda
    device = types.SimpleNamespace(
        exist=True,
        multi_processor_count=properties.multi_processor_count,
        warp_size=properties.warp_size,
        compute_version=f"{properties.major}.{properties.minor}",
        max_threads_per_block=properties.max_threads_per_block,
        max_shared_memory_per_block=properties.shared_memory_per_block,
        device_name=properties.name,
        total_global_memory=properties.total_memory,
        l2_cache_size_bytes=properties.L2_cache_size,
    )

    def cuda(device_id: int = 0) -> Any:
        return device if device_id == 0 else original_device(device_id)

    replace_everywhere("tvm", "cuda", original_device, cuda)
    replace_everywhere("tilelang", "cuda", original_device, cuda)
