"""The hazards of a captured kernel, for its own target."""

from __future__ import annotations

from dataclasses import replace

from triage.experiment.kernels import Kernel
from triage.lints import Device, DeviceTable, Hazard, inspect
from triage.model import KernelRecord

#: Targets without a device: nothing limits threads or shared memory there.
HOST_TARGETS = ("c", "llvm")


def device_of(kernel: Kernel, devices: DeviceTable) -> Device | None:
    """The device a kernel is compiled for, None where no limits are known for it."""
    return devices.get(_architecture(kernel))


def hazards_of(kernel: Kernel, record: KernelRecord, devices: DeviceTable, source: str | None) -> list[Hazard]:
    """Every hazard of one kernel, about that kernel; `source` is the generated device source, where there is one."""
    device = device_of(kernel, devices) or Device(_architecture(kernel))
    return [replace(hazard, about=f"kernel:{kernel.id}") for hazard in inspect(record, device, source)]


def _architecture(kernel: Kernel) -> str:
    return str(kernel.target.get("arch") or kernel.target.get("mcpu") or kernel.target.get("kind") or "unknown")
