"""How frequent each label is, before and after class-aware sampling (figures 2 and 5 of the DB paper)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

BEFORE, AFTER, LINE = "#0072B2", "#E69F00", "#666666"  # colours that colour-blind people tell apart


def draw(description: dict[str, Any], path: Path, title: str) -> None:
    """A PNG, SVG or PDF, by the ending of `path`."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, NullFormatter

    distribution, groups = description["distribution"], description["groups"]
    before, after = distribution["before"], distribution["after_class_aware"]
    few = len(before) <= 40
    figure, axes = plt.subplots(figsize=(9, 4.2 if few else 3.8), layout="constrained")
    places = range(len(before))
    axes.bar(places, before, color=BEFORE, width=0.8 if few else 1.0, label="as the data is")
    if after is not None:
        after = [value or float("nan") for value in after]  # a logarithm knows no zero
        axes.plot(places, after, "o" if few else "-", color=AFTER, markersize=5, label="after class-aware sampling")
    axes.set_yscale("log")
    axes.set_ylabel("share of items with the label")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(bottom=0.5 / max(description["items"], 1))  # half an item
    axes.set_xlim(-0.6, len(before) - 0.4)
    if few:
        axes.set_xticks(
            list(places), [short(name) for name in distribution["labels"]], rotation=60, ha="right", fontsize=8
        )
    else:
        axes.set_xlabel("labels, from the most frequent to the rarest")
    _mark_groups(axes, groups)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    axes.set_title(title, loc="left", fontsize=11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that the font does not have are drawn as boxes
        figure.savefig(path, dpi=140)
    plt.close(figure)


def short(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _mark_groups(axes: Any, groups: dict[str, Any]) -> None:
    place = 0
    for name in ("head", "medium", "tail"):
        if not groups[name]:
            continue
        if place:
            axes.axvline(place - 0.5, color=LINE, linewidth=0.8, linestyle=":")
        middle = place + groups[name] / 2 - 0.5
        axes.annotate(
            f"{name} {groups[name]}", (middle, 0.02), xycoords=("data", "axes fraction"), ha="center", fontsize=8,
            color="black", bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1},
        )  # fmt: skip
        place += groups[name]
