"""Record every PrimFunc that a file of kernels defines: `python record_kernels.py KERNELS.py > KERNELS.json`.

Places name the file as if it lay in `/home/user/kernels`, and tilelang as if in `/home/user/venv`, so that records of two machines are the same.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path


class KernelsOf:
    """What the harness knows of the files of a user, for the one file whose kernels are recorded."""

    def __init__(self, path: str) -> None:
        self.path = Path(path).resolve()

    def is_user(self, file: str) -> bool:
        return Path(file).resolve() == self.path


def main(path: str) -> None:
    import tilelang  # the recorder finds tilelang and tvm among the imported modules
    from tilelang import tvm

    sys.path.insert(0, str(Path(__file__).parents[2] / "triage"))
    from harness import record, spans

    spans.name_user_lines(sys.modules["tilelang.language.eager.builder"].Builder, KernelsOf(path))
    assert tilelang.tvm is tvm
    kernels = [value for value in runpy.run_path(path).values() if isinstance(value, tvm.tirx.PrimFunc)]
    target = {"kind": "cuda", "arch": "sm_90a"}
    records = {str(k.attrs["global_symbol"]): json.loads(record.dump(k, target, {}, [])) for k in kernels}
    text = json.dumps(records).replace(str(Path(path).resolve()), f"/home/user/kernels/{Path(path).name}")
    print(re.sub(r'"[^"]*/site-packages/', '"/home/user/venv/site-packages/', text))


if __name__ == "__main__":
    main(sys.argv[1])
