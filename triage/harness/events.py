"""What the observed process tells: the event log, and the `Context` that every part of the harness works with."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import site
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

VERSION = 1
#: a value whose JSON is longer than this many bytes becomes a blob
INLINE_LIMIT = 16 * 1024
#: variables that may decide how tilelang behaves; no other variable is ever written down
ENVIRONMENT = ("TILELANG_", "TL_", "TVM_", "CUDA_", "ASCEND_", "OMP_")

#: the attribute by which a reported exception is recognized when it is seen again
MARK = "_triage_reported"

#: what the subject is doing when it meets the virtual device; None is its own code
WITH_DEVICE = (None, "load", "call", "launch")

Place = dict[str, Any]


class EventLog:
    """Appends events as JSON lines to `directory/events-<pid>.jsonl`, and large values to `blobs`.

    The file is opened anew for every event: a script may close every descriptor, or fork, and loses nothing.
    A failing write never reaches the script; `lost` counts such events.
    """

    def __init__(self, directory: str, blobs: str) -> None:
        self.directory = os.path.abspath(directory)
        self.blobs = os.path.abspath(blobs)
        self.start = time.monotonic()
        self.lost = 0
        self._numbers = itertools.count()

    def emit(self, type: str, **fields: Any) -> None:
        pid = os.getpid()
        try:
            event = {"v": VERSION, "seq": next(self._numbers), "t": round(time.monotonic() - self.start, 6)}
            event |= {"pid": pid, "type": type}
            event |= {name: self._inline(value) for name, value in fields.items()}
            line = (encode(event) + "\n").encode()
            path = os.path.join(self.directory, f"events-{pid}.jsonl")
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.write(fd, line)
            finally:
                os.close(fd)
        except (OSError, ValueError, RecursionError):
            self.lost += 1

    def blob(self, data: bytes | str) -> str:
        """Store `data` under its SHA-256 and return the digest in hex. Raises `OSError`."""
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogateescape")
        digest = hashlib.sha256(data).hexdigest()
        path = os.path.join(self.blobs, digest)
        if not os.path.exists(path):
            os.makedirs(self.blobs, exist_ok=True)
            partial = f"{path}.{os.getpid()}.{threading.get_ident()}"
            with open(partial, "wb") as file:
                file.write(data)
            os.replace(partial, path)
        return digest

    def _inline(self, value: Any) -> Any:
        if isinstance(value, (int, float, bool, type(None))):
            return value
        text = encode(value)
        return {"blob": self.blob(text)} if len(text) > INLINE_LIMIT else value


def encode(value: Any) -> str:
    """JSON on one line; what JSON cannot hold is written as its `repr`."""
    return json.dumps(value, default=repr, separators=(",", ":"))


class UserFiles:
    """Tells the user's files from those of Python, of installed packages and of the harness."""

    def __init__(self, script: str | None) -> None:
        self.script = os.path.realpath(script) if script else None
        names = ("stdlib", "platstdlib", "purelib", "platlib")
        roots = [sysconfig.get_path(name) for name in names]
        roots += [*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.path.abspath(__file__))]
        roots += [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)]
        self._roots = {os.path.realpath(root) for root in roots if root}
        self._known: dict[str, bool] = {}

    def exclude(self, package: str) -> None:
        """Count the directory of an imported package as foreign, wherever it lies (an editable install)."""
        file = getattr(sys.modules.get(package), "__file__", None)
        if file and os.path.basename(file).startswith("__init__."):  # not a user's own file of that name
            self._roots.add(os.path.dirname(os.path.realpath(file)))
            self._known.clear()

    def is_user(self, path: str) -> bool:
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._judge(path)
        return known

    def _judge(self, path: str) -> bool:
        if not path or path.startswith("<"):
            return False
        real = os.path.realpath(path)
        if real == self.script:
            return True
        parts = real.split(os.sep)
        if "site-packages" in parts or "dist-packages" in parts:
            return False
        if any(real.startswith(root + os.sep) for root in self._roots):
            return False
        return os.path.isfile(real)


class Context:
    """The state of one observed run, handed to every part of the harness.

    `spec` is the parsed SPEC2 (docs/architecture.md); `mode` is "virtual" or "real"; `arch` (e.g. "sm_90a") and
    `target` (e.g. {"kind": "cuda", "arch": "sm_90a"}) are the pinned device, meaningful in mode "virtual".
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.mode: str = spec.get("mode", "virtual")
        self.arch: str = spec.get("arch") or "sm_90a"
        self.target: dict[str, Any] = spec.get("target") or {"kind": "cuda", "arch": self.arch}
        self.log = EventLog(spec["dir"], spec["blobs"])
        self.files = UserFiles(spec.get("script"))
        #: how the architecture was chosen, and the default target the script or its environment asked for
        self.why: str | None = None
        self.arch_fixed = False
        self.requested_default: str | None = None
        #: PATH before the script could change it
        self.first_path = os.environ.get("PATH")
        #: the namespace of the script, once it runs
        self.namespace: dict[str, Any] = {}
        #: the `capture.Capture`, once tilelang is there
        self.capture: Any = None
        #: the `comparisons.Comparisons`, once torch is there
        self.comparisons: Any = None
        #: what a twin run asks for (`virtual/computed.py`), None in any other run; and the last launch that it computed
        self.twin: dict[str, Any] | None = spec.get("twin")
        self.computed: str | None = None
        #: the `screening.Screening` of a twin run that looks at changes, once tilelang is there
        self.screening: Any = None
        #: the switches of one kernel that are set otherwise than the script sets them (`capture.py`)
        self.settings: dict[str, Any] = spec.get("settings") or {}
        #: the `shadow.Shadow` of a run that follows its arithmetic in float64, once torch is there
        self.shadow: Any = None
        #: kernel, or None for the whole run -> what the harness could not do that the script depends on
        self.doubts: dict[str | None, str] = {}
        self._answered: set[str] = set()
        self._errors = itertools.count(1)

    def emit(self, type: str, **fields: Any) -> None:
        """Append one event; never raises. `fields` are plain JSON values; large ones become blobs."""
        self.log.emit(type, **fields)

    def blob(self, data: bytes | str) -> str:
        """Store `data`, return its SHA-256 in hex."""
        return self.log.blob(data)

    def is_user(self, path: str) -> bool:
        """Whether `path` is a file of the user, not of Python, an installed package or the harness."""
        return self.files.is_user(path)

    def user_frame(self) -> Place | None:
        """The place `{"file", "line"}` of the innermost frame in a file of the user, seen from the caller."""
        from . import errors

        frame = sys._getframe(1)
        while frame is not None:
            if self.is_user(frame.f_code.co_filename):
                break
            frame = frame.f_back
        else:
            return None
        file, line = frame.f_code.co_filename, frame.f_lineno
        statement = errors.dsl_lines([frame]).get(0)
        if statement is not None and not errors.is_written(frame.f_code, line):
            line = statement
        return {"file": os.path.abspath(file), "line": line}

    def report_error(
        self, error: BaseException, phase: str | None, kernel: str | None, handled: bool, **more: Any
    ) -> None:
        """Write an `error` event for an exception.

        `phase` says what the subject was doing (import, build, lower, codegen, device, load, call, launch); None lets
        the frames tell. Whoever sees an exception pass reports it as `handled`: nobody knows yet who will catch it.
        If it later ends the script, the event written then `supersedes` that one and inherits its phase and kernel.
        `more` are further fields of the event. `suspect` is added where the error may be the harness's own doing.
        """
        from . import errors

        earlier = [r for r in (getattr(e, MARK, None) for e, _ in errors.chain(error)) if r is not None]
        own = getattr(error, MARK, None)
        if own is not None and (handled or not own["handled"]):
            return
        if isinstance(error, SystemExit):
            earlier = []  # the script chose to end; what led it there stays an error of its own
        if earlier:
            phase, kernel = phase or earlier[0]["phase"], kernel or earlier[0]["kernel"]
        record = errors.record(error, self, phase, kernel, handled)
        suspect = next((r["suspect"] for r in earlier if r.get("suspect")), None) or self._suspect(error, record)
        identity = f"x{next(self._errors)}"
        with contextlib.suppress(AttributeError):  # an exception class with __slots__ cannot be marked
            mark = {"id": identity, "phase": record["phase"], "kernel": kernel, "handled": handled, "suspect": suspect}
            setattr(error, MARK, mark)
        self.emit(
            "error",
            id=identity,
            supersedes=[r["id"] for r in earlier],
            phase=record["phase"],
            kernel=kernel,
            handled=handled,
            error=record,
            **({"suspect": suspect} if suspect else {}),
            **more,
        )

    def _suspect(self, error: BaseException, record: dict[str, Any]) -> str | None:
        """Why an error may come of the virtual device rather than of the script, or None."""
        from . import errors

        own = (getattr(one, errors.SUSPECT, None) for one, _ in errors.chain(error))
        why = next((text for text in own if text), None)
        if why is None and record["phase"] in WITH_DEVICE:
            why = self.doubts.get(record["kernel"]) or self.doubts.get(None)
        if why is None and self.mode == "virtual" and errors.speaks_of_meta(record):
            why = "the error speaks of PyTorch's device `meta`, on which the virtual device keeps shapes without values"
        return why

    @contextlib.contextmanager
    def guarded(self, doing: str, kernel: str | None = None, needed: bool = False) -> Iterator[None]:
        """Turn a failure of the harness's own work into a warning `capture-failed`; the script goes on.

        `needed` says that the script sees the difference: errors that follow (of this kernel, if it is one) are suspect.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is ours and must not reach the script
            where = "".join(traceback.format_exception(error)[-3:])
            self.emit("warning", origin="triage", text=f"capture-failed: could not {doing}: {where}", kernel=kernel)
            if needed:
                self.doubts.setdefault(kernel, f"triage could not {doing}: {type(error).__name__}: {error}")

    def virtual(self, what: str) -> None:
        """Say once that the virtual device answered `what` (e.g. "torch.cuda.Event") with made-up values."""
        if what not in self._answered:
            self._answered.add(what)
            self.emit("virtual", what=what)

    def warn(self, text: str, origin: str, at: Place | None = None) -> None:
        self.emit("warning", text=text, origin=origin, at=at)


def environment() -> dict[str, str]:
    """The variables of the allowlist and their values now."""
    return {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
