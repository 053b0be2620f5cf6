"""Paper, colours and axes that all figures share. No pyplot: nothing global is touched, and no screen is needed."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.core.files import replacing

# Okabe and Ito: colours that colour-blind people tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#555555",
)
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY, "#000000", GREY)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # colour is never the only difference
HATCHED: dict[str, Any] = {"hatch": "//", "edgecolor": "white", "linewidth": 0}  # the second of two kinds of bars
GROUPS = ("head", "medium", "tail")
ENDINGS = (".png", ".svg", ".pdf")
MOST_NAMED = 100  # labels whose names fit under an axis


def canvas(rows: int, columns: int, width: float, height: float, **sharing: Any) -> tuple[Figure, NDArray[Any]]:
    """A figure and its axes [rows, columns]; sizes in inches."""
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", wspace=0.04)
    axes: NDArray[Any] = figure.subplots(rows, columns, squeeze=False, **sharing)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
        one.set_axisbelow(True)
        one.tick_params(labelsize=9)
    return figure, axes


def grid(axes: Axes, axis: Literal["x", "y"] = "y") -> None:
    axes.grid(axis=axis, color="#dddddd", linewidth=0.7)


def titled(axes: Axes, text: str, pad: float | None = None) -> None:
    axes.set_title(text, loc="left", fontsize=10, pad=pad)


def width_for(labels: int, least: float = 8.0) -> float:
    return max(least, min(18.0, 2.0 + 0.17 * labels)) if labels <= MOST_NAMED else 11.0


def label_axis(axes: Axes, names: Sequence[str], *, named: bool = True) -> None:
    """One place for each label, with its name where there is room."""
    axes.set_xlim(-0.7, len(names) - 0.3)
    if len(names) > MOST_NAMED or not named:
        axes.set_xlabel("labels, from the most frequent to the rarest", fontsize=9)
        return
    few = len(names) <= 40
    axes.set_xticks(
        range(len(names)), [short(name) for name in names], rotation=45 if few else 90, fontsize=9 if few else 7
    )
    for text in axes.get_xticklabels():
        text.set_horizontalalignment("right" if few else "center")
        text.set_rotation_mode("anchor" if few else "default")


def mark_groups(axes: Axes, sizes: dict[str, int], *, named: bool = True) -> None:
    """Dotted lines between head, medium and tail; their names stand above the axes, where no data is."""
    place = 0
    for name in GROUPS:
        size = sizes.get(name, 0)
        if not size:
            continue
        if place:
            axes.axvline(place - 0.5, color=GREY, linewidth=0.8, linestyle=":")
        if named:
            axes.annotate(
                name, (place + size / 2 - 0.5, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2),
                textcoords="offset points", ha="center", va="bottom", fontsize=9, color=GREY,
            )  # fmt: skip
        place += size


def legend_above(axes: Axes, columns: int = 4) -> None:
    """Over the axes and right: never on data."""
    axes.legend(
        frameon=False, fontsize=9, ncols=columns, loc="lower right", bbox_to_anchor=(1.0, 1.04), borderaxespad=0
    )


def legend_below(axes: Axes, columns: int) -> None:
    axes.legend(frameon=False, fontsize=9, ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.17))


def legend_beside(axes: Axes, **more: Any) -> None:
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0, **more)


def short(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def check_picture(path: Path) -> None:
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"the picture '{path}' must end in one of {', '.join(ENDINGS)}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"the folder of '{path}' does not exist")


def save(figure: Figure, path: Path, dpi: int = 140) -> None:
    """A PNG, SVG or PDF, by the ending of `path`. The same figure gives the same bytes: no clock goes in."""
    form = path.suffix.lower()[1:]
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    content = io.BytesIO()
    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "raretag"}):
        warnings.simplefilter("ignore", UserWarning)  # letters that the font does not have are drawn as boxes
        figure.savefig(content, format=form, dpi=dpi, metadata=dates.get(form))
    with replacing(path) as new:
        new.write_bytes(content.getvalue())
