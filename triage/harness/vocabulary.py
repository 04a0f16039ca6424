"""What this tilelang knows: public names, parameters, data types, pass configurations. Runs in the place of a script, with the
modules to look into as its arguments; prints one line of JSON after `MARK`. What a version does not have is left out.
"""

import importlib
import inspect
import json
import sys

MARK = "triage-vocabulary:"


def main() -> None:
    names, parameters = {}, {}
    for module in sys.argv[1:]:
        try:
            there = importlib.import_module(module)
        except (ImportError, OSError, RuntimeError):  # a misspelt one, or one that needs what is not here
            continue
        names[module] = sorted(name for name in dir(there) if not name.startswith("_"))
        for name in names[module]:
            member = getattr(there, name, None)
            if callable(member) and name not in parameters:
                try:
                    taken = inspect.signature(member).parameters.values()
                except (TypeError, ValueError):  # builtins tell none
                    continue
                parameters[name] = [[p.name, p.kind.name, p.default is inspect.Parameter.empty] for p in taken]
    print(MARK + json.dumps([names, parameters, data_types(), options()]))


def data_types() -> list[str]:
    try:
        from tilelang.language import dtypes
    except ImportError:
        return []
    return sorted({str(value) for value in vars(dtypes).values() if type(value).__name__ == "dtype"})


def options() -> list[str]:
    try:
        from tilelang import PassConfigKey
    except ImportError:
        return []
    return sorted(str(key.value) for key in PassConfigKey)


main()
