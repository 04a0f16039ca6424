"""All strategies by the names that rules give them (`[fix] strategy`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from triage.fixes import body, datatypes, host, launch, names, shapes
from triage.fixes.proposal import Proposal, Question, Strategy
from triage.model import STAGES, KernelRecord

#: what the compiler does with a kernel once it is written down
COMPILER_STAGES = STAGES[STAGES.index("semantic-check") : STAGES.index("call")]

STRATEGIES: Mapping[str, Strategy] = {
    # names
    "nearest-attribute": names.nearest_attribute,
    "nearest-module": names.nearest_module,
    "nearest-variable": names.nearest_variable,
    "nearest-keyword": names.nearest_keyword,
    "nearest-word": names.nearest_word,
    # shapes
    "swap-tile-dims": shapes.swap_tile_dims,
    "tile-extent": shapes.tile_extent,
    "transpose-flag": shapes.transpose_flag,
    "index-rank": shapes.index_rank,
    "swap-indices": body.swap_indices,
    "copy-shape": body.copy_shape,
    "reduce-shape": body.reduce_shape,
    # data types
    "operand-dtype": datatypes.operand_dtype,
    "accumulator-dtype": datatypes.accumulator_dtype,
    "parameter-dtype": datatypes.parameter_dtype,
    "host-dtype": datatypes.host_dtype,
    # how a kernel is run
    "threads": launch.threads,
    "usual-threads": launch.usual_threads,
    "stages": launch.stages,
    "feature-arch": launch.feature_arch,
    "tile-size": launch.tile_size,
    # statements of a kernel
    "clear-accumulator": body.clear_accumulator,
    "loop-variables": body.loop_variables,
    "floor-division": body.floor_division,
    "memory-scope": body.memory_scope,
    "operand": body.operand,
    # what becomes a kernel, and its call
    "out-idx": host.out_idx,
    "add-out-idx": host.add_out_idx,
    "return-kernel": host.return_kernel,
    "decorate-kernel": host.decorate_kernel,
    "compile-kernel": host.compile_kernel,
    "argument-count": host.argument_count,
    "missing-argument": host.missing_argument,
    "host-shape": host.host_shape,
    "factory-extent": host.factory_extent,
    "contiguous": host.contiguous,
    "host-device": host.host_device,
}


def applicable(named: Sequence[str], stage: str | None, records: Iterable[KernelRecord]) -> tuple[str, ...]:
    """The strategies that a rule names for a fault of this stage; with other numbers of threads wherever the compiler
    failed on a kernel whose number is unusual: first if it is no multiple of a warp, else last."""
    unusual = [n for n in map(launch.threads_of, records) if n > 0 and n not in launch.THREADS]
    if stage not in COMPILER_STAGES or not unusual or "threads" in named:
        return tuple(named)
    return ("usual-threads", *named) if any(n % launch.WARP for n in unusual) else (*named, "usual-threads")


def propose(strategies: Iterable[str], question: Question) -> Iterator[Proposal]:
    """What the named strategies answer, in their order."""
    for name in strategies:
        yield from STRATEGIES[name](question)
