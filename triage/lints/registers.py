"""Fragments against the register file of a block."""

from __future__ import annotations

import math
from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard
from triage.lints.program import Program, shown

REGISTER_BITS = 32
#: Not every element need be alive at once: tuned kernels with fragments of exactly 256 registers a thread exist. Twice
#: the register file cannot be explained that way.
SLACK = 2


def fragments(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A fragment that needs more registers than all threads of the block have: it spills to local memory.

    Every element lives in at least one thread, so elements × bits over the threads bounds the registers of one
    thread from below, whatever the layout. Spilling is legal; it is slow, and slow to compile.
    """
    per_thread = device.registers_per_thread
    threads = program.threads
    if per_thread is None or not threads:
        return
    for buffer in program.allocated():
        if buffer.scope != "local.fragment" or buffer.bytes is None:
            continue
        needed = math.ceil(buffer.bytes * 8 / (threads * REGISTER_BITS))
        if needed > SLACK * per_thread:
            fields = {
                "buffer": shown(buffer),
                "shape": list(buffer.shape),
                "dtype": buffer.dtype,
                "registers": needed,
                "limit": per_thread,
                "threads": threads,
                "threads_that_fit": math.ceil(buffer.bytes * 8 / (per_thread * REGISTER_BITS)),
                "arch": device.arch,
            }
            yield Hazard("fragment-over-registers", shown(buffer), buffer.at, fields=fields, certainty="likely")
