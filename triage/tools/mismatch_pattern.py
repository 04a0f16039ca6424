"""mismatch-pattern: which tiles hold the wrong elements, drawn as a small picture."""

from __future__ import annotations

import hashlib
import math

from triage.experiment.output_tiles import tile_of
from triage.experiment.twin import Compared
from triage.graph.spec import ToolSpec
from triage.model import Artifact, Fact, StepOutcome
from triage.numerics.layout import is_rectangle
from triage.numerics.pattern import FEW, describe, pattern_of
from triage.numerics.picture import describe as describe_tiles
from triage.numerics.picture import draw, positions, tiles_of
from triage.tools.base import Result, Work
from triage.tools.compared import Seen, failed_comparison, seen_by

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
    facts = [
        Fact("mismatch.pattern", str(pattern), work.about, source=SPEC.name),
        Fact("mismatch.values", pattern.values, work.about, source=SPEC.name),
    ]
    mask = seen.blob(compared.mask) if compared.mask else None
    if mask is None:
        return Result(detail=f"{words}; too many elements to draw", facts=tuple(facts))
    tile = _tile(seen, compared)
    tiles = tiles_of(mask, compared.mismatch.shape, tile) if tile else None
    if tiles is not None:
        same = positions(mask, compared.mismatch.shape, tiles.tile)
        if same and len(same) > FEW and not is_rectangle(same):
            words = f"{words}; {len(same)} of {math.prod(tiles.tile)} positions in each tile"
            facts.append(Fact("mismatch.positions", "same", work.about, source=SPEC.name))
        words = f"{words}; {describe_tiles(tiles)}"
        facts.append(Fact("mismatch.tiles", tiles.form, work.about, source=SPEC.name))
    return Result(
        outcome=StepOutcome.UNKNOWN,
        detail=words,
        facts=tuple(facts),
        artifacts=(_picture(work, mask, compared.mismatch.shape, words),),
    )


def _tile(seen: Seen, compared: Compared) -> tuple[int, int] | None:
    """The tile in which the output was written that is wrong."""
    written = compared.written[0] if compared.written else None
    record = seen.record(written.kernel) if written else None
    return tile_of(record, written.argument) if written and record else None


def _picture(work: Work, mask: bytes, shape: tuple[int, ...], words: str) -> Artifact:
    file = work.dir / "wrong-elements.txt"
    file.write_text(f"{words}\n\n{draw(mask, shape)}\n", encoding="utf-8")
    return Artifact(str(file.relative_to(work.case.path)), PICTURE, hashlib.sha256(file.read_bytes()).hexdigest())
