"""static-checks: what the captured kernels show by themselves, without a device and without lowering them again."""

from __future__ import annotations

from collections.abc import Iterator

from triage.experiment.hazards import HOST_TARGETS, device_of, hazards_of
from triage.experiment.kernels import Kernel
from triage.experiment.switches import OURS
from triage.graph.spec import ToolSpec
from triage.lints import DeviceTableError, Hazard, load_devices
from triage.model import Caliber, Fact, KernelRecord, NotChecked, Statement, StepOutcome, StepStatus
from triage.tools.base import Result, Work

SPEC = ToolSpec(
    "static-checks",
    "check the captured kernels: limits, indices, initialization",
    adds=(
        "hazards.count", "hazard.kinds", "kernel.target", "kernel.arch", "kernel.ops", "kernel.configs",
        "kernels.target", "kernels.arch", "kernels.ops", "kernels.configs",
    ),
    essential=True,
)  # fmt: skip


#: What the lints look at, as the report says it.
LOOKED_AT = "device limits, index bounds, initialization, masks, atomics, and writes that collide"


def run(work: Work) -> Result:
    """Inspect every captured kernel for its own target."""
    try:
        devices = load_devices(work.rules_root / "reference" / "devices.toml")
    except (DeviceTableError, OSError) as error:
        return Result(status=StepStatus.FAILED, detail=f"the device table cannot be read: {error}")
    hazards: list[Hazard] = []
    facts, not_checked, inspected = [], [], 0
    traits: list[dict[str, set[str]]] = []
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
        traits.append(traits_of(kernel, record))
        facts += [_words(f"kernel.{name}", words, about) for name, words in traits[-1].items()]
        found = hazards_of(kernel, record, devices, source)
        hazards += found
        inspected += 1
        if found:
            kinds = " ".join(sorted({h.kind for h in found}))
            facts.append(Fact("hazard.kinds", kinds, about, caliber=Caliber.STATIC, source="static-checks"))
    if len(traits) == len(work.kernels) > 0:  # of a kernel that could not be read nothing may be ruled out
        facts += [_words(f"kernels.{name}", set().union(*(one[name] for one in traits)), "run") for name in traits[0]]
    facts.append(Fact("hazards.count", len(hazards), caliber=Caliber.STATIC, source="static-checks"))
    names = f"{inspected} kernel{'s' * (inspected != 1)}"
    checked = (f"{names} against {LOOKED_AT} [static]",) if inspected else ()
    return Result(
        outcome=StepOutcome.FINDING if hazards else StepOutcome.CLEAN if inspected else StepOutcome.UNKNOWN,
        detail=f"{names} inspected, {len(hazards)} hazard(s)",
        facts=tuple(facts),
        hazards=tuple(hazards),
        checked=checked,
        not_checked=tuple(not_checked),
    )


def traits_of(kernel: Kernel, record: KernelRecord) -> dict[str, set[str]]:
    """What tells kernels apart by which faults of the compiler they can meet: target, architecture, operators, pass configs.

    A pass config counts if it is set to anything but false.
    """
    return {
        "target": {str(kernel.target["kind"])} if "kind" in kernel.target else set(),
        "arch": {str(kernel.target["arch"])} if "arch" in kernel.target else set(),
        "ops": set(_ops(record.statements)),
        "configs": {n for n, value in kernel.pass_configs.items() if value is not False and n not in OURS},
    }


def _ops(statements: tuple[Statement, ...]) -> Iterator[str]:
    for statement in statements:
        if statement.op:
            yield statement.op.name
        yield from _ops((*statement.body, *statement.orelse))


def _words(name: str, words: set[str], about: str) -> Fact:
    return Fact(name, " ".join(sorted(words)), about, caliber=Caliber.STATIC, source="static-checks")


def _target(kernel: Kernel) -> str:
    return " ".join(str(v) for v in kernel.target.values() if isinstance(v, str)) or "unknown"
