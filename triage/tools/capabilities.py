"""What this machine can do, told quickly: by files and paths, without importing anything of the user's.

`triage doctor` looks closer (it imports, it asks the driver). A capability that is claimed here and turns out wrong makes a
step fail, which the report then says.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping


def quick(python: str = "", environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The capabilities a graph node may need: execute, tilelang, cxx, nvcc, cuda, ncu, compute-sanitizer."""
    found = {"execute"}
    if python and os.path.realpath(python) != os.path.realpath(sys.executable):
        found.add("tilelang")  # another interpreter: only running it can tell
    elif importlib.util.find_spec("tilelang"):
        found.add("tilelang")
    if any(shutil.which(name) for name in (environ.get("CXX", ""), "g++", "clang++", "c++") if name):
        found.add("cxx")
    homes = [environ.get("CUDA_HOME"), environ.get("CUDA_PATH"), "/usr/local/cuda"]
    paths = os.pathsep.join([environ.get("PATH", ""), *(os.path.join(home, "bin") for home in homes if home)])
    found |= {name for name in ("nvcc", "ncu", "compute-sanitizer") if shutil.which(name, path=paths)}
    if has_gpu(environ):
        found.add("cuda")
    return frozenset(found)


def has_gpu(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether an NVIDIA device node is there (native Linux, or the paravirtual one of WSL) and is not hidden."""
    if environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1", "NoDevFiles"):
        return False
    return bool(glob.glob("/dev/nvidia[0-9]*")) or os.path.exists("/dev/dxg")
