"""Where a statement stands in the user's source."""

from __future__ import annotations

import os
import sys
from typing import Any


def statement(node: Any) -> dict[str, Any] | None:
    ir = sys.modules.get("tilelang.ir")
    get = getattr(ir, "get_stmt_span", None)
    span = get(node) if get is not None else None
    if span is None or span.line <= 0:
        return None
    return {"file": os.path.abspath(span.source_name.name), "line": int(span.line)}
