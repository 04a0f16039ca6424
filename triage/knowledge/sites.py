"""The places where TileLang raises an error, and which of them a text can come from: `rules/reference/sites.jsonl`. Pure.

A site prints a fixed text with operands in it. A text comes from a site if the site's fixed pieces appear in it in order. White
space does not count, because logs wrap lines where they like. Among the sites whose pieces are all there, those with the most
fixed text win: a site whose text is part of another's says less. Several sites may print the same text, in different
stages; then all of them are candidates and nothing tells them apart but the raising frame.

The file has one JSON object a line: `file` (below `tilelang/` for Python, in TileLang's source tree for C++), `line`, `function`, `type` (of the
exception; `static_assert` for one of the compiler that builds a kernel), `check` (what follows `Check failed:`), `message`, both with operands as
`{expression}`, `stage` (of `model.STAGES`, or null), `pass`, `author` (whether it speaks about the author's program), and `backend`. It was made from the sources that the wheel of
tilelang 0.1.15 brings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from triage.knowledge.files import FileError, read_text, taken_apart
from triage.knowledge.words import finder
from triage.model import STAGES

#: Letters and digits that the fixed pieces of a text must have together; fewer are found in texts by chance.
TELLING = 12
#: … and fewer than this tell something only beside the type of the exception that the site raises.
UNTYPED = 24
#: … or this, where the text begins as the site's message does: a whole sentence and no words somewhere in one.
BEGINNING = 18
#: So many tell a site even beside another type: what a version raises may change, a whole sentence is not said by chance.
ANY_TYPE = 40
#: Characters of a message that are searched: it may hold a whole program, but the words of the check come first or last.
TEXT_LIMIT = 8_192
#: What Python itself says when a name, an argument or an item is wrong, wherever that is: some sites use the same words.
_OF_PYTHON = re.compile(
    r"(?:'[\w.]+' object|module '[\w.]+'|type object '[\w.]+') has no attribute|got an unexpected keyword argument"
    r"|got multiple values for argument|missing \d+ required|is not (?:subscriptable|callable|iterable)$|cannot unpack"
)
_OPERAND = re.compile(r"\{[^{}]*\}")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Pieces:
    """The fixed pieces of a text in their order, without white space; `weight` counts their letters and digits."""

    fixed: tuple[str, ...]
    longest: str
    weight: int

    def fits(self, text: str) -> bool:
        """Whether a squeezed text has them in order; no pieces fit nothing."""
        at = 0
        for piece in self.fixed:
            at = text.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return bool(self.fixed)


@dataclass(frozen=True)
class Site:
    """One place that raises; see the module for the fields."""

    file: str
    line: int
    function: str
    type: str
    check: str | None
    message: str
    stage: str | None
    pass_name: str | None
    author: bool
    backend: str

    @property
    def template(self) -> str:
        """What it prints after the type, operands as `{expression}`."""
        if self.check is None:
            return self.message
        return f"Check failed: {self.check}{' ' if self.check.endswith(')') else ''}: {self.message}".rstrip()

    @cached_property
    def pieces(self) -> Pieces:
        """The fixed pieces of the whole text."""
        return _pieces(self.template)

    @cached_property
    def parts(self) -> tuple[Pieces, ...]:
        """The pieces of the message and of the check alone: a log may be cut, and either may change between versions."""
        if self.check is None:
            return ()
        return (_pieces(self.message), _pieces(f"Check failed: {self.check}"))

    def is_in(self, path: str) -> bool:
        """Whether a frame's file is this site's."""
        return path == self.file or path.endswith(f"/{self.file}")


@dataclass(frozen=True)
class Found:
    """The sites a text can come from, all with as much fixed text. `whole` is False where only the check or the message fits."""

    sites: tuple[Site, ...] = ()
    whole: bool = True

    @property
    def stages(self) -> tuple[str | None, ...]:
        """The different stages of the sites, in the order of `model.STAGES`."""
        stages = {site.stage for site in self.sites}
        return tuple(sorted(stages, key=lambda stage: STAGES.index(stage) if stage else len(STAGES)))

    @property
    def passes(self) -> tuple[str | None, ...]:
        return tuple(sorted({site.pass_name for site in self.sites}, key=str))

    @property
    def author(self) -> bool | None:
        """Whether the text speaks about the author's program; None where its sites differ or there are none."""
        said = {site.author for site in self.sites}
        return said.pop() if len(said) == 1 else None


class Sites:
    """The inventory, loaded once."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self.all = tuple(sites)

    def __iter__(self) -> Iterator[Site]:
        return iter(self.all)

    @classmethod
    def load(cls, path: Path) -> Sites:
        """Raises `FileError`."""
        return cls(
            _site(line, number, path) for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), 1)
        )

    def in_scope(self, name: str) -> tuple[Site, ...]:
        """The sites in a C++ function `Class::Function`, or in its class where the function has none."""
        function = tuple(site for site in self._in_class.get(name.partition("::")[0], ()) if site.function == name)
        return function or tuple(self._in_class.get(name.partition("::")[0], ()))

    @cached_property
    def _in_class(self) -> dict[str, list[Site]]:
        classes: dict[str, list[Site]] = {}
        for site in self.all:
            scope, colons, _ = site.function.partition("::")
            if colons:
                classes.setdefault(scope, []).append(site)
        return classes

    @cached_property
    def _in_file(self) -> dict[str, list[Site]]:
        """By the last part of the path: most errors come with a file, and few sites are in one of its name."""
        files: dict[str, list[Site]] = {}
        for site in self.all:
            files.setdefault(site.file.rpartition("/")[2], []).append(site)
        return files

    def find(self, type_name: str, message: str, file: str | None = None) -> Found:
        """The sites that print `message`; `type_name` may be empty where it was not seen. `file` keeps to the sites of one file."""
        if file is None and _OF_PYTHON.search(message.partition("\n")[0]):
            return Found()
        text = _squeezed(message)
        named = () if file is None else self._in_file.get(file.rpartition("/")[2], ())
        sites = tuple(site for site in named if file is not None and site.is_in(file))
        bare = type_name.rpartition(".")[2]
        whole = _best(self._whole.likely(text) if file is None else _whole(sites), bare, text)
        if whole:
            return Found(whole)
        return Found(_best(self._part.likely(text) if file is None else _part(sites), bare, text), False)

    @cached_property
    def _whole(self) -> _Ways:
        return _Ways(_whole(self.all))

    @cached_property
    def _part(self) -> _Ways:
        return _Ways(_part(self.all))


class _Ways:
    """Ways in which sites are told, found by the longest piece of each: few have theirs in a text, and a log has many texts."""

    def __init__(self, ways: Iterable[tuple[Site, Pieces]]) -> None:
        self._ways = tuple((site, way) for site, way in ways if way.fixed)
        having: dict[str, list[int]] = {}
        for number, (_, way) in enumerate(self._ways):
            having.setdefault(way.longest, []).append(number)
        self._having = tuple(having.values())
        self._find = finder([piece.encode("utf-8", "surrogatepass") for piece in having], "ContiguousNFA")

    def likely(self, text: str) -> list[tuple[Site, Pieces]]:
        """Those whose longest piece is in a squeezed text, in their order."""
        pieces = {piece for piece, _, _ in self._find(text.encode("utf-8", "surrogatepass"))}
        return [self._ways[number] for number in sorted(n for piece in pieces for n in self._having[piece])]


def _whole(sites: Iterable[Site]) -> Iterator[tuple[Site, Pieces]]:
    return ((site, site.pieces) for site in sites)


def _part(sites: Iterable[Site]) -> Iterator[tuple[Site, Pieces]]:
    return ((site, part) for site in sites for part in site.parts)


def _best(ways: Iterable[tuple[Site, Pieces]], type_name: str, text: str) -> tuple[Site, ...]:
    """The sites that fit with the most fixed letters, in their order, each once."""
    fitting = [(site, way) for site, way in ways if way.longest in text and way.fits(text)]
    enough = [(site, way) for site, way in fitting if _is_enough(site, way, type_name, text)]
    most = max((way.weight for _, way in enough), default=0)
    return tuple(dict.fromkeys(site for site, way in enough if way.weight == most))


def _is_enough(site: Site, way: Pieces, type_name: str, text: str) -> bool:
    """Whether so many fixed letters tell a site: few do only beside the type that it raises, and beside another type only many."""
    typed = bool(type_name) and (type_name == site.type or site.check is not None or site.type == "static_assert")
    if type_name and not typed:
        return way.weight >= ANY_TYPE
    if typed:
        return way.weight >= TELLING
    return way.weight >= (BEGINNING if text.startswith(way.fixed[0]) else UNTYPED)


def _pieces(template: str) -> Pieces:
    found = tuple(piece for piece in (_squeezed(part) for part in _OPERAND.split(template)) if piece)
    return Pieces(found, max(found, key=len, default=""), sum(map(str.isalnum, "".join(found))))


def _squeezed(text: str) -> str:
    if len(text) > TEXT_LIMIT:
        text = text[: TEXT_LIMIT // 2] + text[-TEXT_LIMIT // 2 :]
    return _SPACE.sub("", text)


def _site(line: str, number: int, path: Path) -> Site:
    with taken_apart(path, number):
        data = json.loads(line)
        site = Site(pass_name=data.pop("pass", None), **data)
    if site.stage is not None and site.stage not in STAGES:
        raise FileError(path, number, f"no stage is called {site.stage!r}")
    return site
