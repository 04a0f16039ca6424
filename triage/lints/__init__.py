"""Static checks of captured kernels: what TileLang compiles silently and a device refuses or computes wrongly.

Detectors are pure functions over the kernel record. Each is certain, says that it is only likely, or stays silent:
guarded accesses, symbolic extents and masked tail tiles are legal. What a hazard means to the author, and whether it
is a fault or advice, is the business of the rules (`on = "hazard"`).
"""

from __future__ import annotations

from triage.lints import (
    accumulators,
    atomics,
    barriers,
    bounds,
    collisions,
    debugging,
    launch,
    loops,
    masks,
    operands,
    pipeline,
    reductions,
    registers,
    shared_memory,
    uninitialized,
    vectors,
    warp_groups,
)
from triage.lints.devices import Device, DeviceTable, DeviceTableError, load_devices
from triage.lints.hazard import Hazard
from triage.lints.program import Program
from triage.model import KernelRecord

__all__ = ["DETECTORS", "Device", "DeviceTable", "DeviceTableError", "Hazard", "inspect", "load_devices"]

#: in the order in which a reader should hear of them: what stops the launch, then what computes garbage, then advice
DETECTORS = (
    # the driver refuses the launch
    launch.threads,  # threads-over-limit
    launch.grid,  # grid-empty, grid-over-limit
    launch.cluster,  # cluster-over-limit
    shared_memory.over_limit,  # shared-over-limit
    shared_memory.dynamic_extent,  # shared-extent-dynamic: it depends on the arguments
    # the instructions do not exist
    operands.scopes,  # gemm-operand-scope
    operands.fp8,  # fp8-gemm-unsupported
    # foreign memory, or values nobody wrote
    bounds.elements,  # index-out-of-bounds, fragment-shape-too-small (works, and the declaration is wrong)
    bounds.regions,  # region-out-of-bounds
    uninitialized.reads,  # uninitialized-read, partly-uninitialized-read
    atomics.once_per_block,  # atomic-once-per-block
    atomics.under_a_condition,  # conditional-atomic-once-per-block
    atomics.by_every_thread,  # atomic-by-every-thread
    atomics.on_registers,  # atomic-on-registers
    barriers.divergent,  # divergent-barrier
    warp_groups.without_threads,  # warp-group-without-threads
    pipeline.overwritten,  # pipelined-overwrite
    pipeline.stored_by_producers,  # pipelined-store-by-producers
    collisions.writes,  # parallel-update-collides, parallel-writes-collide
    collisions.reads_of_others,  # parallel-reads-others
    collisions.by_all_threads,  # threads-update-one-element, threads-store-one-element
    masks.of_other_tiles,  # mask-of-other-tile
    loops.breaks,  # break-in-parallel
    loops.not_carried,  # value-not-carried
    reductions.cleared_each_step,  # accumulator-cleared-each-step
    reductions.cut_short,  # reduction-cut-short
    # works, and not as the author hoped
    accumulators.narrow,  # narrow-accumulator
    registers.fragments,  # fragment-over-registers
    operands.not_k_major,  # gemm-operand-not-k-major
    pipeline.stages,  # pipeline-deeper-than-loop
    pipeline.schedule,  # pipeline-schedule-ignored
    vectors.extents,  # vector-extent
    atomics.emulated,  # atomic-emulated
    # left over from debugging
    debugging.prints,  # print-by-every-thread
    debugging.leftovers,  # debugging-left
)


def inspect(kernel: KernelRecord, device: Device, source: str | None = None) -> tuple[Hazard, ...]:
    """Every hazard of one kernel on one device; `source` is the generated device source, where there is one."""
    program = Program(kernel)
    return tuple(hazard for detector in DETECTORS for hazard in detector(program, device, source))
