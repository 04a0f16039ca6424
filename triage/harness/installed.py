"""The versions that decide what a candidate shows, without importing any of them: prints one JSON object."""

import sys

sys.path[:1] = []  # the names of this folder's files must not stand in for those of others

import importlib.metadata  # noqa: E402
import json  # noqa: E402

known = {"python": sys.version}
for name in ("torch", "tilelang"):
    try:
        known[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        continue
print(json.dumps(known))
