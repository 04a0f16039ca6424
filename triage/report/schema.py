"""The JSON Schema of the report, generated from `contract`, and a check of foreign data against it.

The check needs no third-party package, because it runs wherever `triage report` does; it knows exactly the
keywords that `report_schema` writes.
"""

from __future__ import annotations

import re
import types
import typing
from enum import StrEnum
from typing import Any, Literal, is_typeddict

from triage.model import REPORT_SCHEMA
from triage.report.contract import Report

_PRIMITIVE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def report_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `triage.report/1`. Unknown keys are allowed everywhere: additions are free."""
    definitions: dict[str, Any] = {}
    root = _schema(Report, definitions)
    definitions["Report"]["properties"]["schema"] = {"const": REPORT_SCHEMA}
    definitions["Verdict"]["properties"]["signature"] = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
    definitions["LocationEntry"]["properties"]["line"] = {"type": "integer", "minimum": 1}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": REPORT_SCHEMA,
        "title": "The report of triage",
        **root,
        "$defs": definitions,
    }


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in _PRIMITIVE:
        return {"type": _PRIMITIVE[hint]}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"enum": [str(member) for member in hint]}
    if is_typeddict(hint):
        return _object(hint, definitions)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.NotRequired:
        return _schema(args[0], definitions)
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema(a, definitions) for a in args]}
    if origin is list:
        return {"type": "array", "items": _schema(args[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(args[1], definitions)}
    raise TypeError(f"no JSON Schema for {hint!r}")


def _object(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    name = hint.__name__
    if name not in definitions:
        definitions[name] = {}  # placed first, so that a type may contain itself
        hints = typing.get_type_hints(hint, include_extras=True)
        properties = {key: _schema(value, definitions) for key, value in hints.items()}
        required = [key for key, value in hints.items() if typing.get_origin(value) is not typing.NotRequired]
        definitions[name] = {"type": "object", "properties": properties, "required": required}
        if hint.__doc__:
            definitions[name]["description"] = " ".join(hint.__doc__.split())
    return {"$ref": f"#/$defs/{name}"}


def problems(data: Any, schema: dict[str, Any] | None = None) -> list[str]:
    """What keeps `data` (parsed JSON) from being a report, as `path: what is wrong`; empty where nothing does."""
    root = schema or report_schema()
    found: list[str] = []
    _check(data, root, root["$defs"], "report", found)
    return found


def _check(data: Any, schema: dict[str, Any], definitions: dict[str, Any], path: str, found: list[str]) -> None:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "const" in schema and data != schema["const"]:
        found.append(f"{path}: expected {schema['const']!r}, got {_brief(data)}")
    if "enum" in schema and data not in schema["enum"]:
        found.append(f"{path}: {_brief(data)} is none of {', '.join(map(str, schema['enum']))}")
    if "anyOf" in schema and not any(_accepts(data, option, definitions) for option in schema["anyOf"]):
        # the message of the object, if it is one that does not fit, is more use than "none fits"
        option = next((o for o in schema["anyOf"] if "$ref" in o and isinstance(data, dict)), None)
        if option is not None:
            _check(data, option, definitions, path, found)
        else:
            found.append(f"{path}: unexpected {_brief(data)}")
    kind = schema.get("type")
    if kind is not None and not _is(data, kind):
        found.append(f"{path}: expected {kind}, got {_brief(data)}")
    elif kind == "integer" and data < schema.get("minimum", data):
        found.append(f"{path}: {data} is below {schema['minimum']}")
    elif kind == "string" and not re.search(schema.get("pattern", ""), data):
        found.append(f"{path}: {_brief(data)} does not match {schema['pattern']}")
    elif kind == "array":
        for number, item in enumerate(data):
            _check(item, schema["items"], definitions, f"{path}[{number}]", found)
    elif kind == "object":
        found += [f"{path}: `{key}` is missing" for key in schema.get("required", ()) if key not in data]
        for key, value in data.items():
            part = schema.get("properties", {}).get(key)
            if part is not None:
                _check(value, part, definitions, f"{path}.{key}", found)


def _accepts(data: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    found: list[str] = []
    _check(data, schema, definitions, "", found)
    return not found


def _is(data: Any, kind: str) -> bool:
    if isinstance(data, bool):
        return kind == "boolean"
    wanted: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "null": (type(None),),
        "array": (list,),
        "object": (dict,),
    }
    return isinstance(data, wanted[kind])


def _brief(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 40 else text[:39] + "…"
