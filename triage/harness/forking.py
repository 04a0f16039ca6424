"""What makes a fork of this process cheap: called once, after everything is loaded and before the first fork."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import sys
import weakref

#: of madvise(2), since Linux 6.1
MADV_COLLAPSE = 25
HUGE_PAGE = 2 << 20


def prepare() -> None:
    if "numpy" in sys.modules:  # which loads this at its first use, so every fork would
        importlib.import_module("numpy.random")
    spare_finalizers()
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page it looks at
    collapse()


def spare_finalizers() -> None:
    """Finalizers of the packages belong to this process; torch's alone would cost every fork a fifth of its time."""
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False


def collapse() -> None:
    """Put the heap into huge pages where the kernel can: a fork then copies one entry for each 512 pages."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "madvise"):
        return
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, access, *_, file = [*line.split(maxsplit=5), ""][:6]
            if access != "rw-p" or file.strip() not in ("", "[heap]"):
                continue
            low, high = (int(end, 16) for end in span.split("-"))
            low, high = -(-low // HUGE_PAGE) * HUGE_PAGE, high // HUGE_PAGE * HUGE_PAGE
            if low < high:
                library.madvise(low, high - low, MADV_COLLAPSE)  # where it cannot, the pages stay as they are
