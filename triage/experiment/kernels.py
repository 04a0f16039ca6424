"""The kernels of a run, gathered from its events. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from triage.model import KernelRecord, Place, from_json


@dataclass(frozen=True)
class Kernel:
    """A captured kernel, gathered from the events about it. Blobs are named by their SHA-256."""

    id: str
    name: str
    primfunc: str | None = None
    record: str | None = None
    target: dict[str, Any] = field(default_factory=dict)
    requested_target: Any = None
    pass_configs: dict[str, Any] = field(default_factory=dict)
    out_idx: Any = None
    defined_at: Place | None = None
    called_at: Place | None = None
    compiled: bool = True
    #: phase -> True, False, or the reason why it was skipped
    phases: dict[str, Any] = field(default_factory=dict)
    source: str | None = None
    shared_bytes: int | None = None

    @property
    def failed(self) -> bool:
        return any(ok is False for ok in self.phases.values())


def kernels_of(events: Sequence[Mapping[str, Any]]) -> dict[str, Kernel]:
    """The kernels that `kernel` and `compile.*` events tell of, by id, in the order of their appearance."""
    kernels: dict[str, Kernel] = {}
    for event in events:
        identity = event.get("id") if event["type"] == "kernel" else event.get("kernel")
        if not isinstance(identity, str):
            continue
        if event["type"] == "kernel":
            kernels[identity] = _kernel(identity, event)
        elif event["type"] in ("compile.begin", "compile.end") and identity in kernels:
            kernels[identity] = _after_compile(kernels[identity], event)
    return kernels


def _kernel(identity: str, event: Mapping[str, Any]) -> Kernel:
    target = event.get("target")
    configs = event.get("pass_configs")
    return Kernel(
        id=identity,
        name=str(event.get("name") or identity),
        primfunc=blob_of(event.get("primfunc")),
        record=blob_of(event.get("record")),
        target=target if isinstance(target, dict) else {"kind": str(target)} if target else {},
        requested_target=event.get("requested_target"),
        pass_configs=configs if isinstance(configs, dict) else {},
        out_idx=event.get("out_idx"),
        defined_at=place_of(event.get("defined_at")),
        called_at=place_of(event.get("called_at")),
        compiled=bool(event.get("compiled", True)),
    )


def _after_compile(kernel: Kernel, event: Mapping[str, Any]) -> Kernel:
    phase = str(event.get("phase"))
    if event["type"] == "compile.begin":
        resolved = event.get("target")
        target = resolved if isinstance(resolved, dict) else kernel.target
        return replace(kernel, target=target, phases={**kernel.phases, phase: "unfinished"})
    state = event.get("skipped") or bool(event.get("ok"))
    shared = event.get("shared_bytes")
    return replace(
        kernel,
        phases={**kernel.phases, phase: state},
        source=blob_of(event.get("source")) or kernel.source,
        shared_bytes=shared if isinstance(shared, int) else kernel.shared_bytes,
    )


def record_of(kernel: Kernel, blob: Callable[[str], bytes]) -> KernelRecord | None:
    """The record of a kernel as data, None where the harness could not make one. `blob` raises what it raises."""
    if kernel.record is None:
        return None
    record = from_json(KernelRecord, json.loads(blob(kernel.record)))
    return replace(record, shared_bytes=kernel.shared_bytes) if kernel.shared_bytes is not None else record


def blob_of(value: Any) -> str | None:
    """The SHA-256 that a field refers to, None where it holds the value itself."""
    if isinstance(value, dict):
        value = value.get("blob")
    return value if isinstance(value, str) and len(value) == 64 else None


def place_of(value: Any) -> Place | None:
    if isinstance(value, dict) and isinstance(value.get("file"), str) and isinstance(value.get("line"), int):
        return Place(value["file"], value["line"])
    return None
