"""Attaching to a tilelang that lacks what the capture looks for: nothing of it is touched."""

from __future__ import annotations

import sys
import types

import pytest

from triage.harness import capture


def test_a_tilelang_without_all_of_the_functions_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def cached() -> None: ...

    jit, engine = types.ModuleType("tilelang.jit"), types.ModuleType("tilelang.engine.lower")
    jit.cached = cached  # type: ignore[attr-defined]
    engine.device_codegen = cached  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tilelang.jit", jit)
    monkeypatch.setitem(sys.modules, "tilelang.engine.lower", engine)
    context = types.SimpleNamespace()
    with pytest.raises(AttributeError, match="lower_to_host_device_ir"):
        capture.install(types.ModuleType("tilelang"), context)
    assert jit.cached is cached and engine.device_codegen is cached
    assert not hasattr(context, "capture")


@pytest.mark.parametrize(("configs", "has"), [({"tl.emit_line_directives": {}}, True), ({"tl.UnrollLoop": {}}, False)])
def test_line_directives_are_asked_for_only_where_the_compiler_knows_them(
    configs: dict[str, object], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = types.SimpleNamespace(list_configs=lambda: configs)
    tvm = types.SimpleNamespace(ir=types.SimpleNamespace(transform=types.SimpleNamespace(PassContext=context)))
    package = types.ModuleType("tilelang")
    package.tvm = tvm  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tilelang", package)
    capture.has_line_directives.cache_clear()
    assert capture.has_line_directives() is has
    capture.has_line_directives.cache_clear()
