"""The failed comparisons of a run, from its events. Pure but for the blobs it asks for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from triage.experiment.hazards import hazards_of
from triage.experiment.kernels import Kernel, blob_of, record_of
from triage.lints import DeviceTable
from triage.model import Comparison, KernelRecord, Statement, from_json

#: hazards that make values garbage
GARBAGE = frozenset(
    {"index-out-of-bounds", "region-out-of-bounds", "uninitialized-read", "partly-uninitialized-read"}
)  # fmt: skip
#: how comparisons with a reference that was given by this option are called
ASKED = "--reference "
#: … those with what the same launch wrote under another schedule
SCHEDULED = "with "
#: … and a check of the script's own that passes because an error is NaN (`harness/comparisons.py`)
NAN_PASSES = "a check that NaN passes"
NUMBER = re.compile(r"(?<!\w)\d[\w.]*")


def comparison_of(
    error: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
    kernels: Sequence[Kernel],
    blob: Callable[[str], bytes],
) -> Comparison | None:
    """The failed comparison that an `error` event names; None where it names none that can be read."""
    identity = error.get("comparison")
    if identity is None:
        return None
    event = next(
        (e for e in events if e["type"] == "compare" and (e.get("id"), e.get("pid")) == (identity, error.get("pid"))), None
    )  # fmt: skip
    if event is None or not isinstance(event.get("summary"), dict):
        return None
    told = summary_of(event, blob)
    bounds = told.get("tolerance") or {}
    tolerance = " ".join(f"{name}={value}" for name, value in sorted(bounds.items()))
    try:
        found = from_json(Comparison, {**told, "function": event.get("function"), "tolerance": tolerance})
    except (TypeError, ValueError):
        return None
    wrote = {output.kernel for output in found.written}
    return _with_kernels(found, [kernel for kernel in kernels if kernel.id in wrote], blob)


def is_by_function(name: str) -> bool:
    """Whether a function of a package compares, which is told also where it agrees; the script's own arithmetic is not."""
    return "." in name or is_asked_for(name)


def is_asked_for(name: str) -> bool:
    """Whether it is triage that compares, with a reference that the user gave or with another run."""
    return name.startswith((ASKED, SCHEDULED))


def summary_of(event: Mapping[str, Any], blob: Callable[[str], bytes]) -> dict[str, Any]:
    """What a `compare` event tells; empty where its values were made up. A large one lies in a blob."""
    summary = event.get("summary")
    if not isinstance(summary, dict):
        return {}
    sha = blob_of(summary) if set(summary) == {"blob"} else None
    return dict(json.loads(blob(sha)) if sha else summary)


def _with_kernels(found: Comparison, kernels: Sequence[Kernel], blob: Callable[[str], bytes]) -> Comparison:
    """The comparison with what is known of the kernels that wrote its operands."""
    programs, garbage = [], set()
    for kernel in kernels:
        try:
            record = record_of(kernel, blob)
        except (TypeError, ValueError):
            continue
        if record is None:
            continue
        programs.append(program(record, kernel.target))
        hazards = hazards_of(kernel, record, DeviceTable({}), None)
        garbage |= {f"{h.kind} {h.fields.get('buffer')}" for h in hazards if h.kind in GARBAGE}
    return replace(found, program=" ".join(sorted(programs)), garbage=tuple(sorted(garbage)))


def program(record: KernelRecord, target: Mapping[str, Any]) -> str:
    """A digest of what a kernel computes: its statements and buffers without their numbers, and its target."""
    buffers = [[b.name, b.scope, b.dtype, len(b.shape)] for b in record.buffers]
    told = [buffers, list(_told(record.statements)), target.get("kind"), sorted(record.pass_configs)]
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()[:16]


def _told(statements: Sequence[Statement]) -> Iterator[list[Any]]:
    for one in statements:
        kind = one.loop.kind if one.loop else one.kind
        yield [kind, NUMBER.sub("0", one.text), list(_told(one.body)), list(_told(one.orelse))]
