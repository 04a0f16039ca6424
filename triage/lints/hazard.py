"""What a detector reports, and the little every detector needs to report it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from triage.model import Label, Place

Certainty = Literal["certain", "likely"]


@dataclass(frozen=True)
class Hazard:
    """A shape in a kernel that fails at the launch, computes garbage, or cannot do what the author meant.

    `kind` is what rules match on, `fields` holds the measured values they may quote (as `hazard.<name>`), every
    one a plain JSON value. `at` is the line to look at, None where the record carries no places. `certain` means
    that the record alone proves it for the device asked about; `likely` means that something the record does not
    show (register allocation, reuse of shared memory) could still save the kernel.
    """

    kind: str
    about: str
    at: Place | None = None
    labels: tuple[Label, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict)
    certainty: Certainty = "certain"


def label(at: Place | None, text: str) -> tuple[Label, ...]:
    """One label, or none where the place is unknown."""
    return (Label(at.file, at.line, text),) if at is not None else ()


def size(count: int) -> str:
    """Bytes as text in the largest binary unit that divides them evenly enough to read: `48 KiB`, `1000 B`."""
    if count < 1024:
        return f"{count} B"
    kib = count / 1024
    return f"{kib:.0f} KiB" if kib == int(kib) else f"{kib:.1f} KiB"
