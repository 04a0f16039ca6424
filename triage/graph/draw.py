"""Draw the graph: as text for a terminal, as mermaid and dot for documents, as SVG for a page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from triage.graph.load import Graph, Node
from triage.graph.spec import ToolSpec, layer

FORMATS = ("text", "mermaid", "dot", "svg")
_COLOURS = {"free": "#eef2f7", "compile": "#d9ead3", "run": "#fff2cc", "hardware": "#f4cccc"}


def draw(graph: Graph, tools: Mapping[str, ToolSpec], form: str) -> str:
    """The whole graph in one of FORMATS."""
    return {"text": _text, "mermaid": _mermaid, "dot": _dot, "svg": _svg}[form](graph, tools)


def _title(node: Node, tools: Mapping[str, ToolSpec]) -> str:
    spec = tools.get(node.tool)
    return spec.title if spec else ("report" if node.end else node.tool)


def _built(node: Node, tools: Mapping[str, ToolSpec]) -> bool:
    spec = tools.get(node.tool)
    return node.end or (spec is not None and spec.built)


def _label(conditions: list[str]) -> str:
    return " and ".join(conditions)


def _text(graph: Graph, tools: Mapping[str, ToolSpec]) -> str:
    lines = [f"start ({', '.join(kinds)}) → {to}" for to, kinds in _starts(graph).items()]
    for node in graph.nodes.values():
        if node.end:
            continue
        traits = [layer(node.needs)]
        traits += [f"per {node.per}"] if node.per != "run" else []
        traits += [f"needs {', '.join(node.needs)}"] if node.needs else []
        traits += [f"at most {node.visits} times"] if node.visits > 1 else []
        traits += [] if _built(node, tools) else ["not built yet"]
        lines += ["", f"{node.name}: {_title(node, tools)}  [{'; '.join(traits)}]"]
        lines += [f"    if {_label([c.text for c in b.conditions])}  → {b.to}" for b in node.branches]
        lines += [f"    {'else ' if node.branches else ''}→ {node.then}"]
    return "\n".join(lines) + "\n"


def _starts(graph: Graph) -> dict[str, list[str]]:
    starts: dict[str, list[str]] = {}
    for kind, to in graph.start.items():
        starts.setdefault(to, []).append(kind)
    return starts


def _mermaid(graph: Graph, tools: Mapping[str, ToolSpec]) -> str:
    def quote(text: str) -> str:
        return '"' + text.replace('"', "'").replace("<", "#lt;").replace(">", "#gt;") + '"'

    lines = ["flowchart TD"]
    for node in graph.nodes.values():
        text = f"{node.name}: {_title(node, tools)}" + ("" if _built(node, tools) else " (not built yet)")
        # `end` is a word of mermaid's own, so ids carry a prefix
        lines.append(f"  n_{_id(node.name)}[{quote(text)}]:::{layer(node.needs)}")
    for source, target, branch in graph.edges():
        label = f"|{quote(_label([c.text for c in branch.conditions]))}|" if branch else ""
        lines.append(f"  n_{_id(source)} -->{label} n_{_id(target)}")
    lines += [f"  classDef {name} fill:{colour},stroke:#555" for name, colour in _COLOURS.items()]
    return "\n".join(lines) + "\n"


def _id(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def _dot(graph: Graph, tools: Mapping[str, ToolSpec]) -> str:
    def quote(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = ["digraph triage {", "  rankdir=TB; node [shape=box, style=filled, fontname=Helvetica];"]
    for node in graph.nodes.values():
        style = "filled" if _built(node, tools) else "filled,dashed"
        label = f"{node.name}: {_title(node, tools)}"
        colour = _COLOURS[layer(node.needs)]
        lines.append(f"  {quote(node.name)} [label={quote(label)}, fillcolor={quote(colour)}, style={quote(style)}];")
    for source, target, branch in graph.edges():
        label = f" [label={quote(_label([c.text for c in branch.conditions]))}]" if branch else ' [style="bold"]'
        lines.append(f"  {quote(source)} -> {quote(target)}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def _svg(graph: Graph, tools: Mapping[str, ToolSpec]) -> str:
    """Nodes in rows by their distance from a start; edges as curves whose condition shows as a tooltip."""
    rows = _rows(graph)
    width, height, gap_x, gap_y = 190, 44, 30, 70
    spots = {
        name: (20 + x * (width + gap_x), 20 + y * (height + gap_y))
        for y, row in enumerate(rows)
        for x, name in enumerate(row)
    }
    total_w = 40 + max(len(row) for row in rows) * (width + gap_x)
    total_h = 40 + len(rows) * (height + gap_y)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_w}" height="{total_h}" font-family="sans-serif" font-size="12">',
        '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z" fill="#555"/></marker></defs>',
    ]
    for source, target, branch in graph.edges():
        (x1, y1), (x2, y2) = spots[source], spots[target]
        start, stop = (x1 + width / 2, y1 + height), (x2 + width / 2, y2)
        bend = 40 if stop[1] > start[1] else 120
        label = _label([c.text for c in branch.conditions]) if branch else "otherwise"
        dash = ' stroke-dasharray="5 3"' if branch else ""
        out.append(
            f'<path d="M{start[0]:.0f},{start[1]} C{start[0]:.0f},{start[1] + bend} {stop[0]:.0f},{stop[1] - bend} '
            f'{stop[0]:.0f},{stop[1]}" fill="none" stroke="#555"{dash} marker-end="url(#a)"><title>{escape(label)}</title></path>'
        )
    for name, (x, y) in spots.items():
        node = graph.nodes[name]
        title = _title(node, tools)
        dash = "" if _built(node, tools) else ' stroke-dasharray="4 3"'
        out.append(
            f'<g><rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{_COLOURS[layer(node.needs)]}" stroke="#555"{dash}/>'
            f'<text x="{x + 8}" y="{y + 18}" font-weight="bold">{escape(name)}</text>'
            f'<text x="{x + 8}" y="{y + 34}">{escape(title if len(title) < 30 else title[:28] + "…")}</text>'
            f"<title>{escape(title)}</title></g>"
        )
    return "\n".join([*out, "</svg>"]) + "\n"


def _rows(graph: Graph) -> list[list[str]]:
    distance = dict.fromkeys(graph.start.values(), 0)
    queue = list(distance)
    for name in queue:  # breadth first: the list grows while it is read
        for source, target, _ in graph.edges():
            if source == name and target not in distance:
                distance[target] = distance[name] + 1
                queue.append(target)
    for name in graph.nodes:
        distance.setdefault(name, max(distance.values(), default=0) + 1)
    rows: list[list[str]] = [[] for _ in range(max(distance.values(), default=0) + 1)]
    for name, y in distance.items():
        rows[y].append(name)
    return rows
