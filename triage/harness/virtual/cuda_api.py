"""`torch.cuda` and `torch.accelerator` of a device that does not exist: queries, events, streams, graphs, memory."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import torch

from . import bench, devices, session
from .patching import replace, replace_everywhere
from .tensors import DEVICE


class Event:
    """`torch.cuda.Event`: nothing runs, so everything is done; the time between two events is made up."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        session.virtual("torch.cuda.Event")

    def record(self, stream: Any = None) -> None: ...
    def wait(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Any) -> float:
        return bench.made_up("torch.cuda.Event.elapsed_time")


class Stream:
    """`torch.cuda.Stream`; also what `with torch.cuda.stream(s)` enters."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device = DEVICE
    priority = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None: ...
    def synchronize(self) -> None: ...
    def wait_stream(self, stream: Any) -> None: ...
    def wait_event(self, event: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    __hash__ = object.__hash__


class CUDAGraph:
    """`torch.cuda.CUDAGraph`: what is captured runs once, while it is captured."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        session.virtual("torch.cuda.CUDAGraph")

    def capture_begin(self, *args: Any, **kwargs: Any) -> None: ...
    def capture_end(self) -> None: ...
    def replay(self) -> None: ...
    def reset(self) -> None: ...

    def pool(self) -> tuple[int, int]:
        return (0, 0)


class Runtime:
    """`torch.cuda.cudart()`: every call succeeds and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cuda"):
            raise AttributeError(name)
        session.virtual("torch.cuda.cudart")
        return lambda *args, **kwargs: 0


class device:
    """`torch.cuda.device`: there is one device, and it stays the current one."""

    def __init__(self, device: Any) -> None:
        self.idx = 0

    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...


@contextlib.contextmanager
def _nothing(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


def install(arch: str) -> None:
    """Replace what `torch.cuda` and `torch.accelerator` answer; what is not replaced needs a real device."""
    properties = devices.properties(arch)
    capability = (properties.major, properties.minor)
    memory = properties.total_memory

    def constant(value: Any, what: str | None = None) -> Any:
        def answer(*args: Any, **kwargs: Any) -> Any:
            if what is not None:
                session.virtual(what)
            return value

        return answer

    table: dict[str, Any] = {
        "Event": Event,
        "Stream": Stream,
        "ExternalStream": Stream,
        "CUDAGraph": CUDAGraph,
        "device": device,
        "device_of": device,
        "graph": _nothing,
        "stream": lambda stream: stream if stream is not None else Stream(),
        "current_stream": lambda *args, **kwargs: Stream(),
        "default_stream": lambda *args, **kwargs: Stream(),
        "is_available": constant(True),
        "is_initialized": constant(True),
        "device_count": constant(1),
        "current_device": constant(0),
        "get_device_name": constant(properties.name, "torch.cuda device properties"),
        "get_device_capability": constant(capability, "torch.cuda device properties"),
        "get_device_properties": constant(properties, "torch.cuda device properties"),
        "get_arch_list": constant([arch]),
        "is_bf16_supported": constant(capability >= (8, 0)),
        "is_tf32_supported": constant(capability >= (8, 0)),
        "mem_get_info": constant((memory, memory), "torch.cuda memory"),
        "memory_stats": lambda *args, **kwargs: {},
        "memory_summary": constant("", "torch.cuda memory"),
        "get_rng_state": lambda *args, **kwargs: torch.get_rng_state(),
        "set_rng_state": lambda state, *args, **kwargs: torch.set_rng_state(state),
        "initial_seed": lambda: torch.initial_seed(),
        "is_current_stream_capturing": constant(False),
        "graph_pool_handle": constant((0, 0)),
        "can_device_access_peer": constant(False),
    }
    for name in (
        *("init", "_lazy_init", "set_device", "set_stream", "synchronize", "ipc_collect", "empty_cache"),
        *("manual_seed", "manual_seed_all", "seed", "seed_all", "_sleep", "set_sync_debug_mode", "_check_capability"),
        *("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_accumulated_memory_stats"),
        "set_per_process_memory_fraction",
    ):
        table[name] = constant(None)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        table[name] = constant(0, "torch.cuda memory")
    replace_everywhere("torch", "cudart", torch.cuda.cudart, Runtime)  # `torch.cuda.profiler` has a copy
    for name, value in table.items():
        replace(torch.cuda, name, value)
    torch.cuda._cudart = types.SimpleNamespace(cudaError=types.SimpleNamespace(success=0))
    _accelerator(properties, capability, constant)


def _accelerator(properties: Any, capability: tuple[int, int], constant: Any) -> None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    for name, value in {
        "is_available": constant(True),
        "device_count": constant(1),
        "current_accelerator": constant(torch.device("cuda")),
        "current_device_index": constant(0),
        "current_device_idx": constant(0),
        "current_stream": lambda *args, **kwargs: Stream(),
        "set_device_index": constant(None),
        "set_device_idx": constant(None),
        "set_stream": constant(None),
        "synchronize": constant(None),
        "device_index": device,
        "empty_cache": constant(None),
        "memory_stats": lambda *args, **kwargs: {},
        "memory_allocated": constant(0),
        "max_memory_allocated": constant(0),
        "memory_reserved": constant(0),
        "max_memory_reserved": constant(0),
        "reset_peak_memory_stats": constant(None),
        "get_memory_info": constant((properties.total_memory, properties.total_memory)),
    }.items():
        replace(accelerator, name, value)
