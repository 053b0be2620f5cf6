"""One HTML file that holds everything: styles, scripts, numbers and pictures. The same runs give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from raretag.core.errors import UserError
from raretag.report import charts, comparison, examples, label_tables, overview
from raretag.report.markup import DASH, data_island, figure, table, text
from raretag.report.study import Study
from raretag.report.training_curves import learning_curves, method_curves

MOST_CURVES = 400  # labels with a precision-recall curve, over all runs
TABS = {
    "overview": "Overview",
    "labels": "Labels",
    "curves": "Curves",
    "training": "Training",
    "mistakes": "Mistakes",
    "items": "Items",
    "compare": "Compare",
    "settings": "Settings",
}


def page(studies: list[Study], compared: comparison.Comparison | None, plotly: str) -> str:
    """`plotly` is the source of plotly.js. The first run is the baseline; the page opens on the last."""
    drawn: dict[str, Any] = {}
    panels = {
        "overview": _overview(studies, compared),
        "labels": _each(studies, lambda study, key: _labels(studies, study, key, drawn)),
        "curves": _curves(studies, drawn),
        "training": _each(studies, lambda study, key: _training(study, key, drawn)),
        "mistakes": _each(studies, lambda study, key: label_tables.worst_table(study, studies[0])),
        "items": _each(studies, lambda study, key: examples.gallery(study)),
        "compare": "" if compared is None or len(studies) < 2 else _compare(studies, compared, drawn),
        "settings": settings({study.name: study.record for study in studies}),
    }
    content = {"charts": drawn, "runs": _runs(studies), "labels": _labels_of(studies), "shown": len(studies) - 1}
    return rendered({study.name: study.record for study in studies}, panels, content, plotly)


def rendered(records: dict[str, dict[str, Any]], panels: dict[str, str], content: dict[str, Any], plotly: str) -> str:
    """The page of runs, whose records are given by their names, from its panels."""
    shown = {name: panel for name, panel in panels.items() if panel}
    last = list(records)[-1]
    data = records[last]["data"]
    return Template(_asset("page.html")).substitute(
        title=text(f"{data['name']}: {last}"),
        heading=text(data["name"]),
        subheading=text(", ".join(records)),
        chooser=_chooser(list(records)),
        tabs="".join(_tab(name, place == 0) for place, name in enumerate(shown)),
        panels="".join(_panel(name, inside) for name, inside in shown.items()),
        style=_asset("page.css"),
        script=_asset("page.js"),
        plotly=plotly,
        content=data_island(content),
        version=text(records[last]["environment"]["raretag"]),
    )


def _overview(studies: list[Study], compared: comparison.Comparison | None) -> str:
    def of_run(study: Study, key: str) -> str:
        return (
            f"{overview.missing(study)}<h3>What was trained on what</h3>{overview.trained(study)}"
            f"<h3>Doctor</h3>{overview.doctor(study)}"
        )

    return f"{overview.results(studies, compared)}{_each(studies, of_run)}"


def _labels(studies: list[Study], study: Study, key: str, drawn: dict[str, Any]) -> str:
    chart = charts.precision_by_count(studies, study)
    picture = ""
    if chart is not None:
        drawn[f"count{key}"] = chart
        note = "Dotted lines are the edges of tail, medium and head."
        note += f" Lines lead from {studies[0].name} to {study.name}." if study is not studies[0] else ""
        picture = figure(f"count{key}", "Average precision against training positives", note, "tall")
    rows = max(200, label_tables.MOST_ROWS // len(studies))
    search = (
        f'<p class="tools"><label>Find a label <input type="search" data-filter="labels{key}"></label></p>'
        f'<div id="labels{key}">{label_tables.label_table(study, studies[0], rows)}</div>'
    )
    return picture + search


def _curves(studies: list[Study], drawn: dict[str, Any]) -> str:
    def of_run(study: Study, key: str) -> str:
        parts = []
        for group, chart in charts.probability_histograms(study):
            drawn[f"histogram-{group}{key}"] = chart
            number = len(study.record["groups"][group])
            title = f"{group.capitalize()}: {number:,} label{'s' if number > 1 else ''}"
            parts.append(f"<div>{figure(f'histogram-{group}{key}', title)}</div>")
        if not parts:
            return '<p class="quiet">There are no histograms, because single predictions are not available.</p>'
        note = "Positives should be on the right and negatives on the left. Rare positives on the left are missed."
        return f'<h3>Probabilities by group</h3><p class="quiet">{note}</p><div class="row">{"".join(parts)}</div>'

    chooser = (
        '<h3>Precision and recall</h3><p class="tools"><label>Label <select id="curve-label"></select></label></p>'
        f'<p class="quiet" id="curve-note">{text(_cut(studies))}</p>'
        '<div class="chart tall" id="curve" role="img" aria-label="precision-recall curve"></div>'
    )
    return (chooser if any(study.test is not None for study in studies) else "") + _each(studies, of_run)


def _cut(studies: list[Study]) -> str:
    of = len(studies[-1].labels)
    most = _most_curves(studies)
    words = "Each point is a threshold."
    return words if of <= most else f"{words} Curves of {most:,} of {of:,} labels are in this page: {HOW_CHOSEN}."


HOW_CHOSEN = "in turn the rarest, those with the lowest AP, and the most frequent"


def _most_curves(studies: list[Study]) -> int:
    return max(40, MOST_CURVES // len(studies))


def _training(study: Study, key: str, drawn: dict[str, Any]) -> str:
    parts = []
    for number, (title, chart) in enumerate(learning_curves(study)):
        drawn[f"learning-{number}{key}"] = chart
        parts.append(f"<div>{figure(f'learning-{number}{key}', title)}</div>")
    inside = []
    for number, (title, meaning, chart) in enumerate(method_curves(study)):
        drawn[f"method-{number}{key}"] = chart
        inside.append(f"<div>{figure(f'method-{number}{key}', title, meaning)}</div>")
    method = f'<div class="row">{"".join(inside)}</div>' if inside else f"<p>{_no_state(study)}</p>"
    return f'<div class="row">{"".join(parts)}</div><h3>Inside {text(study.method)}</h3>{method}'


def _no_state(study: Study) -> str:
    return f"{text(study.method)} keeps no state of its own, so there is nothing to show."


def _compare(studies: list[Study], compared: comparison.Comparison, drawn: dict[str, Any]) -> str:
    parts = []
    for metric in compared.differences:
        chart = comparison.difference_chart(compared, studies, metric)
        if chart is not None:
            drawn[f"difference-{metric}"] = chart
            parts.append(f"<div>{figure(f'difference-{metric}', f'{metric} against {compared.baseline}')}</div>")
    return f'<div class="row">{"".join(parts)}</div>{comparison.difference_tables(compared)}'


def settings(records: dict[str, dict[str, Any]]) -> str:
    """All settings of runs, by their names, side by side."""
    trees = [flat(record["config"]) for record in records.values()]
    keys = sorted({key for tree in trees for key in tree})
    rows = [[key, *(str(tree.get(key, DASH)) for tree in trees)] for key in keys]
    rows.sort(key=lambda row: len(set(row[1:])) == 1)  # what differs comes first
    machines = [record["environment"] for record in records.values()]
    about = [[key, *(str(machine.get(key, DASH)) for machine in machines)] for key in machines[-1]]
    heads = ["setting", *records]
    differs = "" if len(records) < 2 else '<p class="quiet">Settings that differ come first.</p>'
    shown = table(heads, rows, caption="Settings", sort=False)
    return f"{differs}{shown}{table(['package', *heads[1:]], about, caption='Environment', sort=False)}"


def page_path(folders: Sequence[Path], out: Path | str | None) -> Path:
    """Where the page goes: by default into the last of the folders."""
    path = folders[-1] / "report.html" if out is None else Path(out)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UserError(f"'{path}' cannot be written: expected the name of a file in a folder that exists")
    return path


def flat(tree: dict[str, Any], before: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return leaves


def _runs(studies: list[Study]) -> list[dict[str, Any]]:
    return [
        {
            "name": charts.plain(study.name),
            "colour": charts.colour(number),
            "curves": charts.precision_recall_curves(study, studies[-1].labels_to_show(_most_curves(studies)))
            if study.labels == studies[-1].labels
            else {},
        }
        for number, study in enumerate(studies)
    ]


def _labels_of(studies: list[Study]) -> list[str]:
    """The names that the chooser of curves shows; plain text, which the script never reads as markup."""
    return [name if len(name) <= 60 else f"{name[:59]}…" for name in studies[-1].labels]


def _each(studies: list[Study], inside: Any) -> str:
    """The same section for every run, of which one is shown."""
    return "".join(
        f'<section class="of-run" data-run="{number}"{"" if number == len(studies) - 1 else " hidden"}>'
        f"{inside(study, f'-{number}')}</section>"
        for number, study in enumerate(studies)
    )


def _chooser(names: list[str]) -> str:
    if len(names) < 2:
        return ""
    last = len(names) - 1
    options = "".join(
        f'<option value="{number}"{" selected" if number == last else ""}>{text(name)}'
        f"{' (baseline)' if number == 0 else ''}</option>"
        for number, name in enumerate(names)
    )
    return f'<label class="chooser">Run shown <select id="run">{options}</select></label>'


def _tab(name: str, first: bool) -> str:
    return (
        f'<button type="button" role="tab" id="tab-{name}" aria-controls="{name}" aria-selected="{str(first).lower()}"'
        f"{'' if first else ' tabindex=-1'}>{TABS[name]}</button>"
    )


def _panel(name: str, inside: str) -> str:
    head = f'<div role="tabpanel" id="{name}" aria-labelledby="tab-{name}" tabindex="0"><h2>{TABS[name]}</h2>'
    return f"{head}{inside}</div>"


def _asset(name: str) -> str:
    return files("raretag.report").joinpath("assets", name).read_text(encoding="utf-8")
