"""The page of runs that rank very many labels: the first places by group of labels, the cut, and held-out items."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raretag.core.errors import UserError
from raretag.core.files import write_text
from raretag.metrics.cut import Cut
from raretag.report.charts import RUNS, Chart
from raretag.report.markup import Cell, count, figure, share, table, text
from raretag.report.page import page_path, rendered, settings
from raretag.report.study import GROUPS
from raretag.runs import evidence
from raretag.runs.ranked_card import named, read_labels, read_ranked_card
from raretag.runs.record import FILE, Record, changes_to_labels, read_record

FIRST = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "nDCG@5")
BINS = np.linspace(0, 1, 11)  # of probabilities
ITEMS, PLACES = 30, 8  # held-out items that are shown, and the first labels of each


def write_ranked(
    folders: Sequence[Path], names: Sequence[str], out: Path | str | None, plotly: str
) -> tuple[Path, list[str]]:
    """As `write_report`; what is shown comes from the run folders alone."""
    for folder in folders:
        if not (folder / FILE).is_file():
            raise UserError(
                f"'{folder}' is not the folder of a finished run: `raretag train --resume {folder}` goes on"
            )
    path = page_path(folders, out)
    records = {name: read_record(folder) for name, folder in zip(names, folders, strict=True)}
    plain = {name: record.to_json() for name, record in records.items()}
    reliability = {name: reliable(folder) for name, folder in zip(names, folders, strict=True)}
    drawn = {"groups": recall_chart(records), "cut": cut_chart(reliability)}
    panels = {
        "overview": results(records) + facts(plain) + figure("groups", "Recall among the first 10 labels, by group"),
        "curves": figure(
            "cut",
            "Labels that are right, against their probability",
            "Ranked labels of held-out items. On the diagonal, probabilities are calibrated.",
        ),
        "items": held_out_items(folders[-1]),
        "settings": settings(plain),
    }
    content = {"charts": drawn, "runs": [], "labels": [], "shown": len(records) - 1}
    write_text(path, rendered(plain, panels, content, plotly))
    return path, []


def results(records: dict[str, Record]) -> str:
    """A row per run, and a second table by group of labels."""
    rows, by_group = [], []
    for name, record in records.items():
        top, decisions = record.metrics.final.top or {}, record.metrics.final.decisions or {}
        rows.append([name, *(share(top.get(key)) for key in FIRST), *(share(decisions.get(key)) for key in DECIDED)])
        for kind in ("recall@10", "coverage@10"):
            values = top.get(kind, {})
            by_group.append([f"{name}, {kind}", *(share(values.get(group)) for group in ("total", *GROUPS))])
    first = next(iter(records.values()))
    low, high = first.groups.edges
    sizes = ", ".join(f"{name} {size:,}" for name, size in first.groups.sizes.items())
    legend = (
        f"Labels by training positives: {sizes} (edges {low} and {high}). PSP: hits weighted by how rarely a label is "
        "marked, so that rare labels count. Precision, recall and F1: all decisions together, at the threshold of the "
        "run. Coverage: labels that are found at least once."
    )
    where = {record.metrics.final.measured_on for record in records.values()}
    caption = f"{' and '.join(sorted(where)).capitalize()}, in %"
    return (
        table(["run", *FIRST, *DECIDED], rows, id="results", caption=caption)
        + table(["run", "total", *GROUPS], by_group, caption="By group of labels, in %")
        + f'<p class="quiet">{text(legend)}</p>'
    )


DECIDED = ("precision", "recall", "F1")


def facts(records: dict[str, dict[str, Any]]) -> str:
    """What was trained on what."""
    found = []
    for name, record in records.items():
        data, fitted = record["data"], record["fitted_on"]
        items = ", ".join(f"{part} {number:,}" for part, number in data["items"].items())
        learned = ", ".join(f"{key} {value}" for key, value in record["method"].get("learned", {}).items())
        told = {
            "Data": f"{data['name']}{changes_to_labels(record['config']['data'])}: {items}",
            "Labels": f"{data['label_count']:,}; a label that is not listed is {data['absent']}",
            "Method": record["method"]["name"] + (f" ({learned})" if learned else ""),
            "Model": f"fitted to {fitted['model']['items']:,} items; the cut to {fitted['thresholds']['items']:,} "
            f"({fitted['thresholds']['from']})",
        }
        inside = "".join(f"<dt>{text(key)}</dt><dd>{text(value)}</dd>" for key, value in told.items())
        found.append(f'<h3>{text(name)}</h3><dl class="facts">{inside}</dl>')
    return "".join(found)


def recall_chart(records: dict[str, Record]) -> Chart:
    data = []
    for number, (name, record) in enumerate(records.items()):
        values = (record.metrics.final.top or {}).get("recall@10", {})
        y = [None if values.get(group) is None else round(100 * values[group], 2) for group in GROUPS]
        data.append({"type": "bar", "name": text(name), "x": list(GROUPS), "y": y, "marker": {"color": RUNS[number]}})
    return {"data": data, "layout": {"barmode": "group", "yaxis": {"title": {"text": "recall@10, %"}}}}


def reliable(folder: Path) -> tuple[list[float], list[float]]:
    """Mean probability and share of right labels of each bin, of the labels that the run kept of held-out items."""
    kept, how = evidence.read(folder), read_ranked_card(folder).decision
    scores, counts, state = (kept[f"held_{name}"].numpy() for name in ("scores", "positives", "state"))
    p = Cut(how.scale, how.rarity, how.shift).probabilities(scores, counts)[state >= 0]
    right = state[state >= 0] == 1
    place = np.clip(np.digitize(p, BINS) - 1, 0, len(BINS) - 2)
    some = [one for one in range(len(BINS) - 1) if (place == one).sum() >= 10]
    return [float(p[place == one].mean()) for one in some], [float(right[place == one].mean()) for one in some]


def cut_chart(found: dict[str, tuple[list[float], list[float]]]) -> Chart:
    data: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "x": [0, 1], "y": [0, 1], "line": {"dash": "dot"}, "showlegend": False}
    ]
    for number, (name, (x, y)) in enumerate(found.items()):
        points = {"x": [round(one, 4) for one in x], "y": [round(one, 4) for one in y]}
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": text(name),
                "marker": {"color": RUNS[number]},
                **points,
            }
        )
    axes = {"xaxis": {"title": {"text": "probability"}}, "yaxis": {"title": {"text": "share that is right"}}}
    return {"data": data, "layout": axes}


def held_out_items(folder: Path) -> str:
    """Some held-out items with their first labels; those that are marked are bold."""
    kept, card = evidence.read(folder), read_ranked_card(folder)
    names, how = read_labels(folder, card).names, card.decision
    some = np.linspace(0, len(kept["held_truth"]) - 1, min(ITEMS, len(kept["held_truth"]))).astype(int)
    labels, scores, counts, state = (
        kept[f"held_{key}"].numpy()[some] for key in ("labels", "scores", "positives", "state")
    )
    p = Cut(how.scale, how.rarity, how.shift).probabilities(scores, counts)
    rows = []
    for place, found in enumerate(named(names, labels[:, :PLACES])):
        words = []
        for name, value, right in zip(found, p[place], state[place], strict=False):
            shown = f"{text(name, 40)} <small>{100 * value:.0f}</small>"
            words.append(f"<strong>{shown}</strong>" if right == 1 else shown)
        marked = count(int(kept["held_truth"][some[place]]))
        row = int(kept["held_rows"][some[place]]) if len(kept["held_rows"]) else int(some[place])
        rows.append([f"item {row}", marked, Cell(", ".join(words))])
    note = "Held-out items, ranked by a model that was not fitted to them: probability in %, marked labels in bold."
    return f'<p class="quiet">{note}</p>' + table(["row", "marked", "first labels"], rows, caption="Held-out items")
