"""From settings to labelled items: a source by its name, made long-tailed and partly hidden as asked."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from raretag.config.settings import Data
from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.protocols import DataSource, LabelsAlone
from raretag.data.dataset import NOT_HELD_OUT, DataSet, Items
from raretag.labels import corrections
from raretag.labels.hide import hide
from raretag.labels.longtail import exponential, pareto
from raretag.labels.store import LabelStore


def find_source(settings: Data, seed: int) -> DataSource:
    given = settings.root or os.environ.get("RARETAG_DATA")
    root = None if given is None else Path(given)
    source: DataSource = registry.build(
        "data", settings.name, settings.options, kind=DataSource, seed=seed, root=root, order=settings.order
    )
    return source


def load(settings: Data, seed: int) -> DataSet:
    """A source's data set, its training part made long-tailed and its labels hidden as asked; the test stays whole."""
    data: DataSet = find_source(without_validation(settings) if settings.all_teach else settings, seed).load()
    if settings.all_teach:
        data = data.all_teaching()
    rows = long_tailed(data.train.labels, settings, seed)
    if rows is not None:
        truth = None if data.truth is None else data.truth.take(rows)
        data = replace(data, train=data.train.take(rows), truth=truth, published=None)
    if settings.hide != "none":
        truth = data.truth or data.train.labels
        hidden_items = Items(data.train.inputs, hidden(data.train.labels, settings, seed))
        itself = data.validation is data.train
        data = replace(data, train=hidden_items, truth=truth)
        if itself and settings.hide_validation:
            data = replace(data, validation=hidden_items)
        elif settings.hide_validation:
            validation = Items(data.validation.inputs, hidden(data.validation.labels, settings, seed))
            data = replace(data, validation=validation)
    if settings.groups_by == "visible":
        data = replace(data, published=data.train.labels.statistics(cooccurrence=False).positives)
        data = replace(data, notes={**data.notes, "groups_by": "visible"})
    if settings.all_teach:
        data = replace(data, validation=data.train)
    if settings.corrections is not None:
        data = with_corrections(data, Path(settings.corrections).expanduser())
    return data if settings.prior is None else with_prior(data, settings.prior)


def with_prior(data: DataSet, prior: Any) -> DataSet:
    """With scores from outside: a file, a `Prior`, or an array for the training items."""
    from raretag.data.prior import Prior  # most runs have none

    if data.train.labels.given_ids is None:
        raise UserError(
            "scores from outside (data.prior) are found by the ids of items, which this data does not "
            "have; name the column "
            "of ids with data.id, or pass the scores as an array: from_arrays(..., prior=scores)"
        )
    found = Prior.given(prior, data.train.labels)
    return replace(data, prior=found, remarks=(*data.remarks, found.remark(data.train.labels)))


def without_validation(settings: Data) -> Data:
    """No items are dealt to a validation part, and to a test part only if they were asked for."""
    known = registry.parameters(registry.find("data", settings.name))
    changes: dict[str, float] = {"validation": 0.0} if "validation" in known else {}
    if "test" in known and not settings.options.get("test"):
        changes["test"] = 0.0
    return settings.model_copy(update=changes)


def with_corrections(data: DataSet, file: Path) -> DataSet:
    """Labels as people have answered them since. Parts whose items have no ids of their own stay as they are."""
    found = corrections.read(file)
    parts, items = dict[str, Items](), set[str]()
    outgrown: list[corrections.Correction] = []
    for name in ("train", "validation", "test"):
        part = data.parts[name]
        if name == "validation" and part is data.train:
            parts[name] = parts["train"]
            continue
        if name != "train" and part.labels.given_ids is None:
            continue
        labels, left = corrections.corrected(part.labels, found)
        parts[name] = Items(part.inputs, labels)
        items |= {str(item) for item in part.labels.ids}
        outgrown += left
    stray = next((one for one in found if one.item not in items), None)
    if stray is not None:
        raise UserError(f"{file.name}: there is no item '{stray.item}' in '{data.name}'; are these its corrections?")
    remark = f"{len(found) - len(outgrown):,} labels corrected by {file.name}"
    if outgrown:
        first = outgrown[0]
        remark += (
            f"; {len(outgrown):,} left out, as the labels have changed since "
            f"(item {first.item}, '{first.label}', was {first.was})"
        )
    notes = {**data.notes, "corrections": {"applied": len(found) - len(outgrown), "left_out": len(outgrown)}}
    train, validation, test = (parts.get(name, part) for name, part in data.parts.items())
    remarks = (*data.remarks, remark)
    return replace(data, train=train, validation=validation, test=test, notes=notes, remarks=remarks)


def _is_about_training(remark: str) -> bool:
    """How inputs are read, which training decides anew when it has chosen a network, and that nothing is held out."""
    return (
        remark.startswith("texts: ") or (remark.startswith("images: ") and "pixels" in remark) or remark == NOT_HELD_OUT
    )


@dataclass(frozen=True)
class Look:
    """What can be said of a data set without training on it."""

    stores: dict[str, LabelStore]
    counted: Tensor  # [C] positives that decide the groups
    remarks: tuple[str, ...]
    duplicates: int | None  # training items that come twice; None: the inputs are not there
    unlisted: str = ""  # what labels are taken for that a file does not list, where it has lists


def look(settings: Data, seed: int) -> Look:
    asked: dict[str, Any] = {
        part: settings.options[part] for part in ("validation", "test") if part in settings.options
    }
    settings = without_encoding(without_validation(settings).model_copy(update=asked))  # as `raretag train` deals items
    source = find_source(settings, seed)
    if not isinstance(source, LabelsAlone):
        data = load(settings, seed)
        names = ("train", "validation", "test") if data.held_out else ("train", "test")
        stores = {name: getattr(data, name).labels for name in names}
        remarks = tuple(remark for remark in data.remarks if not _is_about_training(remark))
        unlisted = str(data.notes.get("absent", ""))
        return Look(stores, group_counts(data), remarks, data.train.duplicates(), unlisted)
    stores = dict(source.labels())  # a named set may have its labels on this disk, but not its inputs
    if stores["validation"] is stores["train"]:
        del stores["validation"]
    rows = long_tailed(stores["train"], settings, seed)
    before = stores["train"] if rows is None else stores["train"].take(rows)
    stores["train"] = hidden(before, settings, seed)
    try:
        twice = load(settings, seed).train.duplicates()
    except UserError:
        twice = None
    return Look(stores, before.statistics(cooccurrence=False).positives, (), twice)


def without_encoding(settings: Data) -> Data:
    """Texts as words, unless the user says otherwise: enough to find those that come twice, and no minutes of work."""
    options = settings.options
    chosen = options.get("representation", "auto") != "auto" or options.get("encoder") is not None
    if chosen or "representation" not in registry.parameters(registry.find("data", settings.name)):
        return settings
    return settings.model_copy(update={"representation": "tfidf"})


def long_tailed(labels: LabelStore, settings: Data, seed: int) -> Tensor | None:
    """The rows of a long-tailed part, or None for all of them."""
    if settings.longtail == "none":
        return None
    if settings.longtail == "pareto":
        rows = pareto(labels, settings.tail_largest, settings.tail_power, seed)
    else:
        rows = exponential(labels, settings.tail_ratio, seed)
    return torch.as_tensor(rows)


def hidden(labels: LabelStore, settings: Data, seed: int) -> LabelStore:
    if settings.hide == "none":
        return labels
    keep = settings.keep if settings.hide in ("pal", "ppl") else None
    return hide(labels, settings.hide, keep=keep, seed=seed, at_least_one=settings.at_least_one)


def group_counts(data: DataSet) -> Tensor:
    """Training positives as they were before any were held out or hidden: a group's members do not depend on that.

    With data.groups_by=visible they are those that a method sees.
    """
    if data.published is not None:
        return data.published
    return (data.truth or data.train.labels).statistics(cooccurrence=False).positives


def counted_on(data: DataSet) -> str:
    """What `group_counts` counts, in words for the record."""
    if data.notes.get("groups_by") == "visible":
        return "training positives that are visible, after some were hidden"
    if data.published is not None:
        return "positives of the whole training list, before any were hidden or held out for validation"
    return "training positives, before any were hidden"
