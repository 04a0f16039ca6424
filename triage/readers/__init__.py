"""Pure parsers of foreign text: what tracebacks, compilers, loggers and crashes printed, as records with quotes."""

from triage.readers.crash import Stack, read_stacks
from triage.readers.decisive import decisive
from triage.readers.event import from_event
from triage.readers.lines import split_lines
from triage.readers.messages import Check, parse_check
from triage.readers.output import Reading, read_output

__all__ = [
    "Check",
    "Reading",
    "Stack",
    "decisive",
    "from_event",
    "parse_check",
    "read_output",
    "read_stacks",
    "split_lines",
]
