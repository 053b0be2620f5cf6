"""The results of runs as a table; what was trained on what, and the doctor."""

from __future__ import annotations

from typing import Any

from raretag.report.comparison import Comparison
from raretag.report.doctor import Finding, examine
from raretag.report.markup import Cell, percent, share, table, text
from raretag.report.study import GROUPS, Study
from raretag.runs.record import changes_to_labels

WORD = {"bad": "Serious", "warn": "Look here", "note": "Note", "good": "Good"}
FEATURES = "the features"
MEASURED = {"test": "Test set", "validation": "Validation items", "out of fold": "Out of fold"}


def results(studies: list[Study], comparison: Comparison | None) -> str:
    """One row per run, as in the terminal."""
    heads = ["run", "mAP", *GROUPS, "F1", "F1*", "exact"]
    recall = any("hidden_recall" in study.final for study in studies)
    rows = []
    for study in studies:
        final = study.final
        margin = comparison.margin(study.name) if comparison is not None else None
        total = share(final["mAP"]["total"])
        if margin is not None:
            total = Cell(f'{total} <small class="quiet">± {percent(margin)}</small>', total.key)
        cells = [share(final["mAP"][group]) for group in GROUPS]
        cells += [share(final["F1"]["total"]), share(final["F1_tuned"]["total"]), share(final["exact_match"])]
        hidden = [share(final.get("hidden_recall"))] if recall else []
        rows.append([study.name, total, *cells, *hidden])
    groups = studies[0].record["groups"]
    low, high = groups["edges"]
    sizes = ", ".join(f"{name} {len(groups[name])}" for name in GROUPS)
    caption = f"{MEASURED.get(studies[0].final.get('measured_on', 'test'), 'Test set')}, in %"
    shown = table([*heads, *(["hidden found"] if recall else [])], rows, id="results", caption=caption)
    counted = groups.get("counted_on") or "training positives before any were hidden"
    legend = f"Labels by {counted}: {sizes} (edges {low} and {high}). F1: macro, at 0.5; "
    sources = list(dict.fromkeys(study.thresholds_from for study in studies))
    legend += f"F1*: at thresholds tuned on {' or '.join(sources)}; exact: all labels of an item right"
    legend += "; hidden found: share of the hidden training positives that the model finds" if recall else ""
    if comparison is not None:
        legend += f"; ±: 95 % bootstrap interval over test items ({comparison.resamples:,} resamples)"
    return f'{shown}<p class="quiet">{text(legend)}.</p>'


def trained(study: Study) -> str:
    """What was trained on what."""
    config, data, method = study.record["config"], study.record["data"], study.record["method"]
    train = config["train"]
    same = study.record["metrics"].get("validation_from", "validation items") != "validation items"
    parts = {name: number for name, number in data["items"].items() if number and not (same and name == "validation")}
    items = ", ".join(f"{name} {number:,}" for name, number in parts.items())
    facts = {
        "Data": f"{data['name']}{changes_to_labels(config['data'])}: {items}",
        "Labels": f"{len(study.labels):,}{_known(study)}",
        "Method": _named(config["method"]) + ("" if study.solved else f" — {_slots(method['slots'])}"),
        "Model": model_in_words(config),
        "Training": f"solved, not trained in steps, seed {config['seed']}"
        if study.solved
        else f"{len(study.record['metrics']['epochs'])} epochs, batches of {train['batch_size']}, "
        f"{_named(config['sampler'])} sampling, {train['optimizer']} at {train['learning_rate']:g}, "
        f"seed {config['seed']}",
    }
    inside = "".join(f"<dt>{text(key)}</dt><dd>{text(value)}</dd>" for key, value in facts.items())
    return f'<dl class="facts">{inside}</dl>'


def doctor(study: Study) -> str:
    findings = examine(study)
    note = "" if study.test is not None else _without_evidence()
    return f'<div class="findings">{"".join(map(_finding, findings))}</div>{note}'


def missing(study: Study) -> str:
    if not study.missing:
        return ""
    entries = "".join(f"<li>{text(sentence)}</li>" for sentence in study.missing)
    return f'<aside class="missing"><strong>Not everything could be shown.</strong><ul>{entries}</ul></aside>'


def _finding(finding: Finding) -> str:
    command = f"<p>Try next: <code>{text(finding.command)}</code></p>" if finding.command else ""
    return (
        f'<article class="finding {finding.level}"><p class="level">{WORD[finding.level]}</p>'
        f"<h4>{text(finding.title)}</h4><p>{text(finding.text)}</p>{command}</article>"
    )


def _without_evidence() -> str:
    return '<p class="quiet">Predictions of single items are not available, so only means could be examined.</p>'


def _known(study: Study) -> str:
    sizes = ", ".join(f"{name} {len(study.record['groups'][name])}" for name in GROUPS)
    if study.unknown is None:
        return f" ({sizes})"
    if not study.unknown.any() and study.record["data"].get("notes", {}).get("absent") == "negative":
        return f" ({sizes}); labels that an item does not list are assumed to be absent; nobody has checked that"
    entries = max(1, study.record["data"]["items"]["train"] * len(study.labels))
    return f" ({sizes}); {100 * (1 - int(study.unknown.sum()) / entries):.1f} % of the training labels are known"


def _named(section: dict[str, Any]) -> str:
    options = ", ".join(f"{key} {value}" for key, value in section.items() if key != "name")
    return str(section["name"]) + (f" ({options})" if options else "")


def model_in_words(config: dict[str, Any]) -> str:
    """Head, network and encoder; a network without layers leaves the features as they are."""
    parts = [_network(config[part]) for part in ("head", "model", "encoder") if config[part]["name"] != "none"]
    words = " on ".join(parts).replace(f"{FEATURES} on ", f"{FEATURES} of ")
    return words + ("" if config["branches"]["name"] == "single" else f", {_named(config['branches'])}")


def _network(section: dict[str, Any]) -> str:
    """A pretrained network by the name that people know."""
    if section["name"] == "mlp" and section.get("layers") == 0:
        return FEATURES
    if section["name"] == "side_by_side":
        return " and ".join(map(_network, section.get("of", [])))
    known = {"efficientnet_lite": f"EfficientNet-Lite{section.get('variant', 0)}"}
    return known.get(section["name"]) or _named(section)


def _slots(slots: dict[str, str]) -> str:
    return ", ".join(f"{slot}: {part}" for slot, part in slots.items())
