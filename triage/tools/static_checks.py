"""static-checks: what the captured kernels show by themselves, without a device and without lowering them again."""

from __future__ import annotations

from triage.experiment.hazards import HOST_TARGETS, device_of, hazards_of
from triage.experiment.kernels import Kernel
from triage.graph.spec import ToolSpec
from triage.lints import DeviceTableError, Hazard, load_devices
from triage.model import Caliber, Fact, NotChecked, StepOutcome, StepStatus
from triage.tools.base import Result, Work

SPEC = ToolSpec(
    "static-checks",
    "check the captured kernels: limits, indices, initialization",
    adds=("hazards.count", "hazard.kinds"),
    essential=True,
)


def run(work: Work) -> Result:
    """Inspect every captured kernel for its own target."""
    try:
        devices = load_devices(work.rules_root / "reference" / "devices.toml")
    except (DeviceTableError, OSError) as error:
        return Result(status=StepStatus.FAILED, detail=f"the device table cannot be read: {error}")
    hazards: list[Hazard] = []
    facts, not_checked, inspected = [], [], 0
    for kernel in work.kernels.values():
        record = work.kernel_record(kernel)
        if record is None:
            not_checked.append(NotChecked(f"static checks of kernel {kernel.name}", "it could not be recorded"))
            continue
        if device_of(kernel, devices) is None and kernel.target.get("kind") not in HOST_TARGETS:
            what = f"device limits for kernel {kernel.name}"
            not_checked.append(NotChecked(what, f"no limits are known for target {_target(kernel)}"))
        source = work.case.get(kernel.source).decode("utf-8", "replace") if kernel.source else None
        about = f"kernel:{kernel.id}"
        found = hazards_of(kernel, record, devices, source)
        hazards += found
        inspected += 1
        if found:
            kinds = " ".join(sorted({h.kind for h in found}))
            facts.append(Fact("hazard.kinds", kinds, about, caliber=Caliber.STATIC, source="static-checks"))
    facts.append(Fact("hazards.count", len(hazards), caliber=Caliber.STATIC, source="static-checks"))
    names = f"{inspected} kernel{'s' * (inspected != 1)}"
    checked = (f"{names} against device limits, index bounds and initialization [static]",) if inspected else ()
    return Result(
        outcome=StepOutcome.FINDING if hazards else StepOutcome.CLEAN if inspected else StepOutcome.UNKNOWN,
        detail=f"{names} inspected, {len(hazards)} hazard(s)",
        facts=tuple(facts),
        hazards=tuple(hazards),
        checked=checked,
        not_checked=tuple(not_checked),
    )


def _target(kernel: Kernel) -> str:
    return " ".join(str(v) for v in kernel.target.values() if isinstance(v, str)) or "unknown"
