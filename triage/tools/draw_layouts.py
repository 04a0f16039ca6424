"""draw-layouts: how the fragments and shared buffers that lead to a wrong output lie in threads and memory.

It accuses nothing: it shows whose elements are wrong, and where the values come by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from triage.experiment.client import TemplateError
from triage.experiment.feeding import leading_to
from triage.experiment.kernels import Kernel
from triage.experiment.output_tiles import tile_of
from triage.graph.spec import ToolSpec
from triage.model import Artifact, Fact, KernelRecord, StepStatus
from triage.numerics.layout import Layout, describe, draw, owners
from triage.numerics.picture import positions
from triage.tools.base import Result, Work
from triage.tools.compared import failed_comparison, seen_by
from triage.tools.lower_kernels import program

SPEC = ToolSpec(
    "draw-layouts",
    "draw the inferred layouts",
    adds=("mismatch.owners",),
    seconds=lambda facts: 5.0,
)
#: what the pictures are called among the artifacts of a case
PICTURES = "picture of the inferred layouts"


def run(work: Work) -> Result:
    """Lower the kernel that wrote what is wrong as far as layout inference, and draw what it inferred."""
    seen = seen_by(work)
    compared = failed_comparison(work, seen) if seen else None
    written = compared.written[0] if compared and compared.written else None
    record = seen.record(written.kernel) if seen and written else None
    kernel = work.kernels.get(written.kernel) if written else None
    if seen is None or compared is None or written is None or record is None or kernel is None:
        return Result(detail="no kernel is known to have written what is compared")
    if kernel.primfunc is None or kernel.name != record.name:
        return Result(detail=f"kernel {record.name} was not captured as IR")
    try:
        layouts = _inferred(work, kernel)
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"the lowering process does not work: {error}")
    if layouts is None:
        return Result(detail=f"kernel {kernel.name} does not lower as far as layout inference")
    involved = leading_to(record, written.argument)
    drawn = [layout for layout in layouts if layout.buffer in involved]
    if not drawn:
        return Result(detail=f"no layout was inferred for what leads to {written.argument}")
    mask = seen.blob(compared.mask) if compared.mask else None
    shape = compared.mismatch.shape if compared.mismatch else ()
    whose = _owners(drawn, record, written.argument, mask, shape)
    said = "; ".join(
        [*map(describe, drawn), *([f"the wrong elements of each tile are those of {whose}"] if whose else [])]
    )
    return Result(
        detail=said,
        facts=(Fact("mismatch.owners", whose, work.about, source=SPEC.name),) if whose else (),
        artifacts=(_pictures(work, drawn, said),),
    )


def _inferred(work: Work, kernel: Kernel) -> list[Layout] | None:
    outcome = work.template().run(program(work, kernel), "layouts")
    return [Layout.of(data) for data in outcome.facts["layouts"]] if outcome.status == "succeeded" else None


def _owners(
    layouts: Sequence[Layout], record: KernelRecord, output: str, mask: bytes | None, shape: tuple[int, ...]
) -> str:
    """Whose elements are wrong, by the fragment of the size of the output's tile; empty where several of them say otherwise."""
    tile = tile_of(record, output)
    wrong = positions(mask, shape, tile) if mask is not None and tile else None
    if not wrong:
        return ""
    said = {owners(layout, wrong) for layout in layouts if layout.threads and layout.shape == tile}
    return said.pop() if len(said) == 1 else ""


def _pictures(work: Work, layouts: Sequence[Layout], said: str) -> Artifact:
    file = work.dir / "layouts.txt"
    drawn = "\n\n".join(map(draw, layouts))
    file.write_text(f"{said}\n\n{drawn}\n", encoding="utf-8")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Artifact(str(file.relative_to(work.case.path)), PICTURES, digest, drawn)
