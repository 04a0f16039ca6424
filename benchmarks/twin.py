"""How many kernels of a folder of scripts the CPU twin computes, and whether the scripts then agree with themselves:
`python benchmarks/twin.py FOLDER`.

Every `.py` below FOLDER that a user would start (`virtual_device.chosen`) is run unmodified on the virtual device in
twin mode, so the comparisons that it makes itself are real where all that they rest on was computed. Prints a line for each script and

* kernels reached: PrimFuncs that were launched; supported: of these, the ones of which no launch was refused;
* comparisons that were made with computed values, and how many of them matched;
* why launches were answered with made-up values, by number of kernels;
* seconds that the interpreter took for a launch, and element operations a second.

Writes the same as JSON. A mismatch is a fault of the twin or of the script: each has to be looked at.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from virtual_device import HARNESS, chosen, fits, read_events, wait

#: why a kernel could not be reached by the twin that is no limit of the interpreter: time, or values made up before
NOT_THE_INTERPRETER = re.compile(r"made up|has no values|before this one took|more work than|size of an output")


def measure(script: Path, arch: str, timeout: float, seconds: float, python: str) -> dict[str, Any]:
    """Run one script in twin mode and read its events."""
    with tempfile.TemporaryDirectory(prefix="twin-") as scratch:
        spec = {
            "script": str(script),
            "argv": [],
            "cwd": str(script.parent),
            "dir": scratch,
            "blobs": os.path.join(scratch, "blobs"),
            "mode": "virtual",
            "arch": arch,
            "target": {"kind": "cuda", "arch": arch},
            "call": None,
            "compile": False,
            "twin": {"seconds": seconds},
        }
        path = os.path.join(scratch, "spec.json")
        Path(path).write_text(json.dumps(spec))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TILELANG_")}
        output = os.path.join(scratch, "output")
        start = time.monotonic()
        with open(output, "wb") as file:
            process = subprocess.Popen(
                [python, str(HARNESS / "boot.py"), path],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=script.parent,
                env=environment,
                start_new_session=True,
            )
            code, _ = wait(process, timeout)
        tail = Path(output).read_text(errors="replace")[-800:]
        return summary(read_events(scratch), code) | {"seconds": round(time.monotonic() - start, 1), "tail": tail}


def summary(events: list[dict[str, Any]], code: int | str) -> dict[str, Any]:
    """What one run computed, from its events."""
    names = {e["id"]: e.get("name") for e in events if e["type"] == "kernel"}
    kernels: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["type"] != "twin":
            continue
        kernel = kernels.setdefault(
            event["kernel"], {"name": names.get(event["kernel"]), "launches": [], "why": None, "happenings": []}
        )
        if event.get("computed"):
            kernel["launches"].append([event["seconds"], event["work"]])
            kernel["happenings"] += [happening_text(h) for h in event.get("happenings", [])]
        else:
            kernel["why"] = event.get("why")
    compares = [e for e in events if e["type"] == "compare"]
    return {
        "code": code,
        "kernels": kernels,
        "matched": sum(e.get("matched") is True for e in compares),
        "mismatched": [
            f"{e['function']} line {(e.get('at') or {}).get('line')}" for e in compares if e.get("matched") is False
        ],
        "virtual": sum(e.get("matched") is None for e in compares),
    }


def happening_text(happening: dict[str, Any]) -> str:
    line = (happening.get("place") or {}).get("line")
    return f"{happening['kind']} {happening['buffer']} line {line} x{happening['count']}"


def state(kernel: dict[str, Any]) -> str:
    """supported, refused (by the interpreter), or unknown (its values were not there, or it was too much)."""
    why = kernel["why"]
    if why is None or (kernel["launches"] and NOT_THE_INTERPRETER.search(why)):
        return "supported"
    return "unknown" if NOT_THE_INTERPRETER.search(why) else "refused"


def row(name: str, result: dict[str, Any]) -> str:
    kernels = list(result["kernels"].values())
    done = sum(state(k) == "supported" for k in kernels)
    verdict = f"{result['matched']} agree"
    if result["mismatched"]:
        verdict += f", DIFFER: {', '.join(result['mismatched'])}"
    why = "; ".join(sorted({f"{k['name']}: {k['why']}" for k in kernels if k["why"]}))
    return f"{result['seconds']:6.1f} s  {done}/{len(kernels)} kernels  {verdict:12}  {result['code']}  {name}  {why}"


def totals(results: dict[str, dict[str, Any]]) -> str:
    kernels = [k for r in results.values() for k in r["kernels"].values()]
    states = Counter(state(k) for k in kernels)
    judged = states["supported"] + states["refused"]
    launches = [launch for k in kernels for launch in k["launches"]]
    reasons = Counter(k["why"] for k in kernels if k["why"])
    lines = [
        f"{len(results)} scripts, {sum(bool(r['kernels']) for r in results.values())} with a kernel that was launched",
        f"kernels reached {len(kernels)}: supported {states['supported']}, refused {states['refused']}, "
        f"not tried {states['unknown']}; supported of those tried "
        f"{100 * states['supported'] / judged if judged else 0:.0f} %",
        f"comparisons of computed values: {sum(r['matched'] for r in results.values())} agree, "
        f"{sum(len(r['mismatched']) for r in results.values())} differ",
        f"kernels with happenings: {sum(bool(k['happenings']) for k in kernels)}",
    ]
    if launches:
        spent, work = (sum(column) for column in zip(*launches, strict=True))
        lines.append(
            f"seconds for a launch: median {statistics.median(s for s, _ in launches):.2f}, largest {max(s for s, _ in launches):.1f}; "
            f"{work / max(spent, 1e-9) / 1e6:.0f} M element operations a second"
        )
    lines += [f"{count:4}  {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a script")
    parser.add_argument("--seconds", type=float, default=60, help="seconds for the launches of a script")
    parser.add_argument("--only", default="", help="a regular expression on the path")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=Path, default=Path("twin.json"))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for path in sorted(options.folder.rglob("*.py")):
        name = str(path.relative_to(options.folder))
        if not (re.search(options.only, name) and fits(name, options.arch)):
            continue
        if chosen(path.relative_to(options.folder), path.read_text()):
            results[name] = measure(path.resolve(), options.arch, options.timeout, options.seconds, options.python)
            print(row(name, results[name]), flush=True)
            options.json.write_text(json.dumps(results, indent=1))
    print(totals(results))


if __name__ == "__main__":
    main()
