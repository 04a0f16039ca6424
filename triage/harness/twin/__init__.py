"""The CPU twin: an interpreter of the TIR of a kernel before any pass, which computes what the program says.

Blocks run one after another; threads, parallel and vectorized loops are lanes, axes of numpy arrays. A statement is done
by all lanes before the next begins. What no right kernel does (reading what nobody wrote, indices out of bounds, lanes
that write different values to one element) is recorded with the line of the statement.
"""

from __future__ import annotations

from .outcome import Happening, Observer, Outcome, Unsupported
from .program import WORK_LIMIT, poison, run

__all__ = ["WORK_LIMIT", "Happening", "Observer", "Outcome", "Unsupported", "poison", "run"]
