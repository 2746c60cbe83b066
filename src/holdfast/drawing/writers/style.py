"""The colours and fonts of a picture, as CSS: light, dark, or whatever the reader's screen prefers."""

from __future__ import annotations

from typing import Final, Literal

Theme = Literal["auto", "light", "dark"]

FONTS: Final = '"Helvetica Neue", Helvetica, Arial, "Liberation Sans", "Noto Sans", "DejaVu Sans", sans-serif'

_SHAPES: Final = f"""\
text {{ font-family: {FONTS}; font-size: 12px; }}
.name {{ font-size: 13px; font-weight: bold; }}
.heading {{ font-size: 18px; font-weight: bold; }}
.note {{ font-size: 11px; }}
.middle {{ text-anchor: middle; }}
.box {{ stroke-width: 1.2; }}
.frame > .box {{ stroke-width: 1; }}
.icon {{ fill: none; stroke-width: 1.3; stroke-linecap: round; stroke-linejoin: round; }}
.edge {{ fill: none; stroke-width: 1.3; }}
.handler, .return, .undo-edge {{ stroke-dasharray: 5 4; }}
.after {{ stroke-dasharray: 2 4; }}
.sign path {{ fill: none; stroke: #ffffff; stroke-width: 1.7; stroke-linecap: round; stroke-linejoin: round; }}
.running > .box, .waiting > .box, .failed > .box, .retrying > .box {{ stroke-width: 2; }}
.skipped > .box, .cancelled > .box {{ stroke-dasharray: 4 3; }}
"""

_LIGHT: Final = {
    "page": "#ffffff",
    "text": "#1e293b",
    "muted": "#4b5563",
    "card": "#ffffff",
    "line": "#94a3b8",
    "frame": "#f6f8fb",
    "frame_line": "#c3cddb",
    "chip": "#e9eef5",
    "chip_line": "#cbd5e1",
    "edge": "#64748b",
    "bar": "#334155",
    "call": "#2563eb",
    "outside": "#7c3aed",
    "wait": "#b45309",
    "data": "#0f766e",
    "other": "#0369a1",
    "end": "#334155",
    "error": "#b91c1c",
    "block": "#475569",
}

_DARK: Final = {
    "page": "#0f172a",
    "text": "#e2e8f0",
    "muted": "#a3b1c6",
    "card": "#1e293b",
    "line": "#64748b",
    "frame": "#152035",
    "frame_line": "#3b4a63",
    "chip": "#2b3950",
    "chip_line": "#46566f",
    "edge": "#8796ad",
    "bar": "#cbd5e1",
    "call": "#60a5fa",
    "outside": "#a78bfa",
    "wait": "#fbbf24",
    "data": "#2dd4bf",
    "other": "#38bdf8",
    "end": "#cbd5e1",
    "error": "#f87171",
    "block": "#a3b1c6",
}

STATE_COLOURS: Final = {
    # state: fill and line when light, then when dark
    "pending": ("#ffffff", "#b6c0ce", "#172033", "#4b5b74"),
    "running": ("#eff6ff", "#2563eb", "#172c50", "#60a5fa"),
    "waiting": ("#fffbeb", "#b45309", "#3a2c10", "#fbbf24"),
    "retrying": ("#fff7ed", "#c2410c", "#3d2312", "#fb923c"),
    "success": ("#ecfdf5", "#047857", "#0d3328", "#34d399"),
    "failed": ("#fef2f2", "#b91c1c", "#421a1f", "#f87171"),
    "skipped": ("#f6f7f9", "#6b7280", "#1b2435", "#94a3b8"),
    "cancelled": ("#f3f1f7", "#6d5a8c", "#241f35", "#b3a1d6"),
}


def style_of(theme: Theme) -> str:
    """The style sheet of a picture."""
    if theme == "auto":
        dark = _colours(_DARK, dark=True)
        return f"{_SHAPES}{_colours(_LIGHT, dark=False)}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"
    return _SHAPES + _colours(_DARK if theme == "dark" else _LIGHT, dark=theme == "dark")


def page_colour(theme: Theme) -> str:
    """The background."""
    return (_DARK if theme == "dark" else _LIGHT)["page"]


def _colours(c: dict[str, str], *, dark: bool) -> str:
    rules = [
        f".page {{ fill: {c['page']}; }}",
        f"text {{ fill: {c['text']}; }}",
        f".detail, .note, .title, .muted {{ fill: {c['muted']}; }}",
        f".box {{ fill: {c['card']}; stroke: {c['line']}; }}",
        f".frame > .box {{ fill: {c['frame']}; stroke: {c['frame_line']}; }}",
        f".chip > .box {{ fill: {c['chip']}; stroke: {c['chip_line']}; }}",
        f".bar > .box, .dot > .box {{ fill: {c['bar']}; stroke: {c['bar']}; }}",
        f".ring > .box {{ fill: {c['page']}; stroke: {c['bar']}; stroke-width: 3; }}",
        f".edge {{ stroke: {c['edge']}; }}",
        f".arrow {{ fill: {c['edge']}; }}",
    ]
    for group in ("call", "outside", "wait", "data", "other", "end", "error", "block"):
        rules.append(f".{group}-group > .icon {{ stroke: {c[group]}; }}")
        rules.append(f".{group}-group > .stripe {{ fill: {c[group]}; }}")
    for state, colours in STATE_COLOURS.items():
        fill, line = colours[2:] if dark else colours[:2]
        rules.append(f".{state} > .box {{ fill: {fill}; stroke: {line}; }}")
        rules.append(f".{state} > .sign circle {{ fill: {line}; }}")
    rules.append(f".pending > text {{ fill: {c['muted']}; }}")
    sign = c["page"]
    rules.append(f".sign path {{ stroke: {sign}; }}")
    return "\n".join(rules) + "\n"
