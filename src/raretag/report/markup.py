"""Small pieces of HTML. Whatever comes from a user goes through `text`."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Sequence
from typing import Any

DASH = "\N{EN DASH}"


def text(value: object, longest: int | None = None) -> str:
    words = str(value)
    return html.escape(words if longest is None or len(words) <= longest else f"{words[: longest - 1]}…")


def wrapping(value: object, longest: int | None = None) -> str:
    """A name that may break after `_`, `.`, `/` and `-`."""
    return re.sub(r"([_./-])(?=\w)", r"\1<wbr>", text(value, longest))


def percent(value: float | None, sign: bool = False) -> str:
    if value is None or math.isnan(value):
        return DASH
    return f"{100 * value:{'+' if sign else ''}.1f}"


class Cell(str):
    """A cell whose HTML is made, with the number that it is sorted by."""

    __slots__ = ("key",)
    key: float | None

    def __new__(cls, markup: str, key: float | None = None) -> Cell:
        made = super().__new__(cls, markup)
        made.key = key
        return made


def share(value: float | None, sign: bool = False) -> Cell:
    known = value is not None and not math.isnan(value)
    tone = "" if not sign or not known or abs(value or 0) < 0.0005 else "up" if (value or 0) > 0 else "down"
    shown = percent(value, sign)
    return Cell(f'<span class="{tone}">{shown}</span>' if tone else shown, value if known else math.nan)


def count(value: int | None) -> Cell:
    return Cell(DASH if value is None else f"{value:,}", math.nan if value is None else float(value))


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    id: str = "",
    caption: str = "",
    sort: bool = True,
    stack: bool = False,
) -> str:
    """Plain strings are escaped, cells are not. The first column names the row. `stack`: cards on a phone."""
    numeric = [bool(rows) and getattr(rows[0][place], "key", None) is not None for place in range(len(heads))]
    head = "".join(_head(name, number, sort) for name, number in zip(heads, numeric, strict=True))
    names = heads if stack else [""] * len(heads)
    body = "".join(
        f"<tr>{''.join(_cell(place, cell, names[place]) for place, cell in enumerate(row))}</tr>" for row in rows
    )
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    kind = f' class="{" ".join(["sortable"] * sort + ["stack"] * stack)}"' if sort or stack else ""
    named = f' id="{text(id)}"' if id else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption or "table")}"><table{kind}{named}>'
        f"{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _head(name: str, numeric: bool, sort: bool) -> str:
    kind = ' class="number"' if numeric else ""
    return f'<th scope="col"{kind}>{f"<button type=button>{text(name)}</button>" if sort else text(name)}</th>'


def _cell(place: int, cell: str | Cell, head: str) -> str:
    markup = cell if isinstance(cell, Cell) else wrapping(cell)
    key = cell.key if isinstance(cell, Cell) else None
    named = f' data-head="{text(head)}"' if head else ""
    if place == 0:
        return f'<th scope="row">{markup}</th>'
    if key is None:
        return f"<td{named}>{markup}</td>"
    return f'<td{named} class="number" data-key="{"" if math.isnan(key) else f"{key:.6g}"}">{markup}</td>'


def chart(name: str, label: str, kind: str = "") -> str:
    """The place of a chart, which the page draws when it is first visible."""
    return f'<div class="chart {kind}" data-chart="{text(name)}" role="img" aria-label="{text(label)}"></div>'


def figure(name: str, title: str, note: str = "", kind: str = "") -> str:
    below = f'<p class="quiet">{text(note)}</p>' if note else ""
    return f"<figure><figcaption>{text(title)}</figcaption>{below}{chart(name, title, kind)}</figure>"


def data_island(content: Any) -> str:
    """JSON that no content can end: a script element ends at the first `</`."""
    packed = json.dumps(content, allow_nan=False, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        packed = packed.replace(letter, f"\\u{ord(letter):04x}")
    return packed
