"""Labels to and from the tools in which people annotate: Label Studio, FiftyOne, Argilla.

Out: items with what a model predicts, as pre-annotations with scores. In: what people said, as a `LabelStore`. Someone
who annotates an item sees all labels, so one that was not chosen is a negative; an item that nobody annotated, or that
was skipped, is unknown in all labels, and so is a label on which two people disagree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from raretag.core.errors import UserError
from raretag.core.lazy import needed
from raretag.labels.store import LabelStore
from raretag.serve.predictions import Predictions
from raretag.suggestions.listing import LOCAL_FILES, opened

FIELD = "labels"


def label_studio_page(labels: Sequence[str], kind: str = "image") -> str:
    """The labelling interface of a Label Studio project in which several labels may be chosen.

    >>> print(label_studio_page(["sea", "boat"], "text"))
    <View>
      <Text name="item" value="$text"/>
      <Choices name="labels" toName="item" choice="multiple">
        <Choice value="sea"/>
        <Choice value="boat"/>
      </Choices>
    </View>
    """
    if kind not in ("image", "text"):
        raise UserError(f"kind is {kind!r}; expected image or text")
    choices = "\n".join(f"    <Choice value={quoteattr(label)}/>" for label in labels)
    item = f'<{kind.title()} name="item" value="${kind}"/>'
    choices_tag = f'<Choices name="{FIELD}" toName="item" choice="multiple">'
    return f"<View>\n  {item}\n  {choices_tag}\n{choices}\n  </Choices>\n</View>"


def to_label_studio(
    items: Sequence[str],
    predictions: Predictions | None = None,
    *,
    kind: str = "image",
    prefix: str = LOCAL_FILES,
    ids: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Tasks to import into Label Studio, as a list for JSON; predictions become pre-annotations with a score.

    Args:
        items: paths or addresses of images, or texts.
        predictions: of a model for these items: `raretag.load(run).predict(items)`.
        kind: "image" or "text".
        prefix: comes before the path of an image, so that the browser can open it: a URL such as
            "https://example.org/images/", or Label Studio's own address of local files.
        ids: one name per item, which comes back with the answers; default: those of the predictions, or the items.

    >>> to_label_studio(["photos/a.jpg"])[0]["data"]
    {'image': '/data/local-files/?d=photos/a.jpg', 'item': 'photos/a.jpg'}
    """
    names = list(ids) if ids is not None else [str(item) for item in items]
    if len(names) != len(items) or (predictions is not None and len(predictions) != len(items)):
        raise UserError(f"{len(items)} items, {len(names)} ids; expected one id and one prediction for each item")
    tasks = []
    for row, (item, name) in enumerate(zip(items, names, strict=True)):
        shown = opened(str(item), prefix) if kind == "image" else str(item)
        task: dict[str, Any] = {"data": {kind: shown, "item": name}}
        if predictions is not None:
            chosen = np.flatnonzero(predictions.chosen[row]).tolist()
            value = {"choices": [predictions.labels[label] for label in chosen]}
            result = {"from_name": FIELD, "to_name": "item", "type": "choices", "value": value}
            score = float(predictions.probabilities[row, chosen].mean()) if len(chosen) else 0.0
            task["predictions"] = [{"model_version": "raretag", "score": round(score, 4), "result": [result]}]
        tasks.append(task)
    return tasks


def from_label_studio(export: Any, labels: Sequence[str] | None = None) -> tuple[list[str], LabelStore]:
    """Items and labels of an export of Label Studio (JSON or JSON-MIN) of a project with multiple choices.

    Args:
        export: the file, or the list in it.
        labels: all label names; default: those that were chosen anywhere.

    >>> done = {"data": {"text": "A boat.", "item": "1"}, "annotations": [
    ...     {"result": [{"type": "choices", "from_name": "labels", "value": {"choices": ["boat"]}}]}]}
    >>> items, store = from_label_studio([done, {"data": {"text": "?", "item": "2"}}], ["boat", "sea"])
    >>> items, store.dense().tolist()
    (['A boat.', '?'], [[1.0, 0.0], [nan, nan]])
    """
    if isinstance(export, (str, Path)):
        try:
            export = json.loads(Path(export).read_text(encoding="utf-8-sig"))
        except (OSError, ValueError) as error:
            raise UserError(f"'{export}' is not a JSON export of Label Studio: {error}") from None
    if not isinstance(export, list) or not all(isinstance(task, dict) for task in export):
        raise UserError("an export of Label Studio is a list of tasks; expected JSON or JSON-MIN")
    items, ids, answers = [], [], []
    for number, task in enumerate(export):
        data = task.get("data", task)
        item = next((data[kind] for kind in ("image", "text") if kind in data), None)
        if item is None:
            raise UserError(f"task {number + 1} has neither image nor text; expected a project made by to_label_studio")
        items.append(str(item))
        ids.append(str(data.get("item", task.get("id", number))))
        answers.append(_choices(task))
    return items, store_of(answers, labels, ids)


def _choices(task: dict[str, Any]) -> list[set[str]]:
    """What each annotator chose."""
    if "data" not in task:  # JSON-MIN has the last annotation only, and one choice as a word
        given = task.get(FIELD)
        if given is None:
            return []
        return [
            {given} if isinstance(given, str) else set(given.get("choices", ()) if isinstance(given, dict) else given)
        ]
    return [
        {choice for result in annotation.get("result", ()) for choice in result.get("value", {}).get("choices", ())}
        for annotation in task.get("annotations", ())
        if not annotation.get("was_cancelled")
    ]


def store_of(answers: Sequence[Sequence[set[str]]], labels: Sequence[str] | None, ids: Sequence[str]) -> LabelStore:
    """Of what each annotator of each item chose."""
    found = sorted({label for item in answers for one in item for label in one})
    names = list(labels) if labels is not None else found
    if strange := [label for label in found if label not in names]:
        raise UserError(f"the label '{strange[0]}' was chosen but is not among the {len(names)} labels")
    if not names:
        raise UserError("nobody has chosen a label yet; give labels=[...] if that is right")
    values = np.full((len(answers), len(names)), np.nan)
    for row, item in enumerate(answers):
        for column, label in enumerate(names):
            said = {label in one for one in item}
            if len(said) == 1:
                values[row, column] = said.pop()
    return LabelStore.from_dense(values, names, ids)


def to_fiftyone(samples: Any, predictions: Predictions, field: str = "raretag") -> None:
    """Write predictions into a field of a FiftyOne data set: `Classifications` with a confidence each.

    Args:
        samples: a data set or view of FiftyOne, in the order of the predictions.
        predictions: of a model for these samples.
        field: the name of the field.
    """
    fo = needed("fiftyone", "fiftyone", "FiftyOne")
    values = [
        fo.Classifications(
            classifications=[
                fo.Classification(
                    label=predictions.labels[label], confidence=float(predictions.probabilities[row, label])
                )
                for label in np.flatnonzero(predictions.chosen[row]).tolist()
            ]
        )
        for row in range(len(predictions))
    ]
    samples.set_values(field, values)


def from_fiftyone(
    samples: Any, field: str = "ground_truth", labels: Sequence[str] | None = None
) -> tuple[list[str], LabelStore]:
    """Paths and labels of a FiftyOne data set; a sample whose field is empty is unknown in all labels."""
    paths = [str(path) for path in samples.values("filepath")]
    given = samples.values(f"{field}.classifications.label")
    return paths, store_of([[] if one is None else [set(one)] for one in given], labels, paths)


def to_argilla(texts: Sequence[str], predictions: Predictions, *, ids: Sequence[str] | None = None) -> list[Any]:
    """Records for Argilla with the predicted labels as suggestions.

    For a data set with a TextField "text" and a MultiLabelQuestion "labels".
    """
    rg = needed("argilla", "argilla", "Argilla")
    records = []
    for row, text in enumerate(texts):
        chosen = np.flatnonzero(predictions.chosen[row]).tolist()
        suggestions = []
        if len(chosen):  # Argilla knows no empty suggestion
            names = [predictions.labels[label] for label in chosen]
            scores = [float(predictions.probabilities[row, label]) for label in chosen]
            suggestions = [rg.Suggestion(FIELD, value=names, score=scores, agent="raretag")]
        name = str(row if ids is None else ids[row])
        records.append(rg.Record(id=name, fields={"text": text}, suggestions=suggestions))
    return records


def from_argilla(records: Any, labels: Sequence[str] | None = None) -> tuple[list[str], LabelStore]:
    """Texts and labels of Argilla's records; those without a submitted response are unknown in all labels."""
    found = list(records)
    answers = []
    for record in found:
        given = record.responses[FIELD] or []
        submitted = [one for one in given if str(getattr(one.status, "value", one.status)) == "submitted"]
        answers.append([set(one.value) for one in submitted])
    texts = [str(record.fields["text"]) for record in found]
    return texts, store_of(answers, labels, [str(record.id) for record in found])
