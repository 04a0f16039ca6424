"""mismatch-pattern: which tiles hold the wrong elements, drawn as a small picture."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

from triage.experiment.output_tiles import block_of, counted_rounds, tile_of
from triage.graph.spec import ToolSpec
from triage.model import Artifact, Fact, KernelRecord, StepOutcome
from triage.numerics.layout import is_rectangle
from triage.numerics.pattern import FEW, Pattern, describe, pattern_of
from triage.numerics.picture import Tiles, draw, positions, tiles_of, unravelled
from triage.numerics.picture import describe as describe_tiles
from triage.tools.base import Result, Work
from triage.tools.compared import failed_comparison, seen_by

SPEC = ToolSpec(
    "mismatch-pattern",
    "look at which elements are wrong",
    adds=("mismatch.pattern", "mismatch.values", "mismatch.tiles", "mismatch.positions"),
    seconds=lambda facts: 1.0,
)
#: what the picture is called among the artifacts of a case
PICTURE = "picture of the wrong elements"


def run(work: Work) -> Result:
    """Draw the failed comparison that the step is about."""
    seen = seen_by(work)
    compared = failed_comparison(work, seen) if seen else None
    if seen is None or compared is None or compared.mismatch is None:
        return Result(detail="nothing is known of which elements are wrong")
    words = describe(compared.mismatch)
    pattern = pattern_of(compared.mismatch)
    written = compared.written[0] if compared.written else None
    record = seen.record(written.kernel) if written else None
    if record is not None:
        words += _rounds(record, pattern)
    facts = [
        Fact("mismatch.pattern", str(pattern), work.about, source=SPEC.name),
        Fact("mismatch.values", pattern.values, work.about, source=SPEC.name),
    ]
    mask = seen.blob(compared.mask) if compared.mask else None
    if mask is None:
        return Result(detail=f"{words}; too many elements to draw", facts=tuple(facts))
    tile = tile_of(record, written.argument) if written and record else None
    tiles = tiles_of(mask, compared.mismatch.shape, tile) if tile else None
    if tiles is not None and record is not None and written is not None:
        same = positions(mask, compared.mismatch.shape, tiles.tile)
        if same and len(same) > FEW and not is_rectangle(same):
            words = f"{words}; {len(same)} of {math.prod(tiles.tile)} positions in each tile"
            facts.append(Fact("mismatch.positions", "same", work.about, source=SPEC.name))
        words = f"{words}; {describe_tiles(tiles)}{_block(record, written.argument, compared.mismatch.shape, tiles)}"
        facts.append(Fact("mismatch.tiles", tiles.form, work.about, source=SPEC.name))
    return Result(
        outcome=StepOutcome.UNKNOWN,
        detail=words,
        facts=tuple(facts),
        artifacts=(_picture(work, mask, compared.mismatch.shape, words),),
    )


def _block(record: KernelRecord, output: str, shape: Sequence[int], tiles: Tiles) -> str:
    """Which block writes the first tile with wrong elements, where the program says it plainly."""
    row, column = (place * size for place, size in zip(tiles.touched[0], tiles.tile, strict=True))
    start = (*unravelled(row, shape[:-1]), column)
    buffer = next((b for b in record.buffers if b.name == output), None)
    if buffer is None or (all(isinstance(n, int) for n in buffer.shape) and buffer.shape != tuple(shape)):
        return ""  # what is compared is another view of it
    block = block_of(record, output, start)
    return f"; the first of them is written where {_and(block)}" if block else ""


def _rounds(record: KernelRecord, pattern: Pattern) -> str:
    """A common factor as the part of a loop that counted."""
    rounds = counted_rounds(record, pattern.ratio) if pattern.ratio is not None else None
    return f", as if {rounds[0]} of the {rounds[1]} rounds over {rounds[2]} counted" if rounds else ""


def _and(values: Mapping[str, int]) -> str:
    return " and ".join(f"{name} = {value}" for name, value in values.items())


def _picture(work: Work, mask: bytes, shape: tuple[int, ...], words: str) -> Artifact:
    file = work.dir / "wrong-elements.txt"
    drawn = draw(mask, shape)
    file.write_text(f"{words}\n\n{drawn}\n", encoding="utf-8")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Artifact(str(file.relative_to(work.case.path)), PICTURE, digest, drawn)
