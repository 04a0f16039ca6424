"""`triage explain`: what a rule means, or what a text says went wrong. Heavy imports wait in the functions."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

from triage.arguments import UsageError
from triage.console import HEALTHY, UNKNOWN, say, show

#: a longer word is no path, and asking for it would fail
PATH_LIMIT = 4096
#: What nobody writes as the text of an error: a path, or a name with the ending of a log.
FILE_NAME = re.compile(r"(?:~|\.{0,2})/\S+|\S+\.(?:log|txt|out|err|json|xml|md|py)")


def command(args: argparse.Namespace) -> int:
    from triage.knowledge.explain import means_rule

    if args.what != ["-"] and all(means_rule(word) for word in args.what):
        return _explain_rules(args.what, args.json)
    text, source = _text_to_explain(args.what)
    if not text.strip():
        raise UsageError("there is no text to explain")
    return _explain_text(text, source, args.json)


def _explain_rules(words: Sequence[str], as_json: bool) -> int:
    from triage.knowledge.explain import HEADINGS, UnknownCodeError, explain_code, rule_data

    found, status = [], HEALTHY
    for word in words:
        try:
            found.append(rule_data(word) if as_json else explain_code(word))
        except UnknownCodeError as error:
            say(str(error))
            status = UNKNOWN
    if as_json:
        import json

        print(
            json.dumps({"schema": "triage.explain-rules/1", "rules": found}, indent=1, default=str)
        )  # a table may have a date
    elif found:
        show("\n\n".join(map(str, found)), _styles(HEADINGS))
    return status


def _styles(headings: Sequence[str]) -> dict[str, str]:
    """What stands out on a page: its headings, which stand alone on their lines, the marks below a quote, and codes."""
    return {
        rf"(?m)^(?:{'|'.join(map(re.escape, headings))})$": "bold",
        r"(?m)^ *\^+$": "bold red",
        r"\bTL[GCPIE]\d{3}\b": "cyan",
    }


def _text_to_explain(words: Sequence[str]) -> tuple[str, dict[str, object]]:
    """The text, and where it comes from: standard input, a file that exists, or the words themselves."""
    from triage.knowledge.material import BinaryError, read_material

    path = words[0] if len(words) == 1 else ""
    try:
        if path == "-":
            material = read_material(sys.stdin.buffer)
        elif path and len(path) < PATH_LIMIT and "\n" not in path and os.path.exists(path):
            if os.path.isdir(path):
                raise UsageError(f"{path} is a directory; name a file in it")
            with open(path, "rb") as file:
                material = read_material(file)
            say(f"reading the file {path}")
        elif FILE_NAME.fullmatch(path):
            raise UsageError(f"there is no file {path}")
        else:
            text = " ".join(words)
            return text, {"kind": "text", "path": None, "characters": len(text), "left_out": 0}
    except BinaryError as error:
        raise UsageError(f"{'standard input' if path == '-' else path} {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if material.left_out:
        say(f"{material.left_out} bytes in the middle were not read")
    kind, name = ("stdin", None) if path == "-" else ("file", path)
    return material.text, {"kind": kind, "path": name, "characters": len(material.text), "left_out": material.left_out}


def _explain_text(text: str, source: dict[str, object], as_json: bool) -> int:
    from triage import __version__, explaining
    from triage.knowledge.files import require, rules_root

    require(rules_root())
    explanation = explaining.explain_text(text, explaining.load_knowledge(rules_root()))
    if as_json:
        import json

        print(json.dumps(explaining.as_json(explanation, source, __version__), indent=1, allow_nan=False))
    else:
        show(explaining.show(explanation), _styles(("VERDICT", "FITS", "Nearest misses:")))
    return HEALTHY if explanation.is_explained else UNKNOWN
