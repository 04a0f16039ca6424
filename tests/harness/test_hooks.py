"""Import hooks act after a package's import and leave the module as it would be without them."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.fixture
def package(tmp_path, monkeypatch):
    name = "hooked_package"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("import sys\nvalue = 1\nfrom . import part\n")
    (folder / "part.py").write_text("value = 2\n")
    (tmp_path / "broken_package.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    for module in [m for m in sys.modules if m.startswith((name, "broken_package"))]:
        del sys.modules[module]


@pytest.fixture
def watch(harness, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    def watch(*names):
        log = []
        harness("hooks").AfterImport(
            names,
            lambda module: log.append(("before", module.__name__)),
            lambda module, seconds: log.append(
                ("after", module.__name__, getattr(module, "value", None), seconds >= 0)
            ),
            lambda: log.append("done"),
        ).install()
        return log

    return watch


def test_the_hook_runs_after_the_whole_package(package, watch):
    log = watch(package)
    assert log == []
    importlib.import_module(package)
    assert log == [("before", package), "done", ("after", package, 1, True)]


def test_the_module_looks_as_without_a_hook(package, watch):
    plain = importlib.import_module(package)
    expected = (type(plain.__loader__), plain.__file__, sorted(vars(plain)), sorted(vars(plain.__loader__)))
    for module in [m for m in sys.modules if m.startswith(package)]:
        del sys.modules[module]
    watch(package)
    module = importlib.import_module(package)
    assert (type(module.__loader__), module.__file__, sorted(vars(module)), sorted(vars(module.__loader__))) == expected


def test_a_failing_import_fails_as_it_is(package, watch):
    log = watch("broken_package")
    with pytest.raises(RuntimeError, match="broken"):
        importlib.import_module("broken_package")
    assert log == [("before", "broken_package"), "done"]
    assert "broken_package" not in sys.modules


def test_two_hooks_on_one_package_both_run(package, watch):
    first, second = watch(package), watch(package)
    importlib.import_module(package)
    assert first[0] == second[0] == ("before", package)
    assert first[-1] == second[-1] == ("after", package, 1, True)


def test_a_package_that_is_not_there(watch):
    log = watch("no_such_package_at_all")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_package_at_all")
    assert log == []
