"""A trained model on the Hugging Face Hub, or in any folder: weights, card, and a page written from the record.

raretag push runs/a hf://me/my-model          raretag.load("hf://me/my-model")
raretag push runs/a shared/my-model           raretag.load("shared/my-model")
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from raretag.core.errors import UserError
from raretag.core.files import write_text
from raretag.core.lazy import needed
from raretag.runs.card import FILE as CARD
from raretag.runs.card import WEIGHTS, read_card
from raretag.runs.record import FILE as RECORD
from raretag.runs.record import Metrics, Record, read_record

ADDRESS = "hf://"
SHIPPED = (CARD, WEIGHTS, RECORD)  # what `load` needs, and the record behind the page


def push(run: Path, to: str, *, private: bool = True) -> str:
    """Copy the model of a finished run to the Hub (hf://OWNER/NAME) or into a folder; gives where it is now.

    The page has the name of the data and of all labels, and the numbers; it holds no item.
    """
    read_card(run)  # a folder without a model is found before anything is sent
    record = read_record(run)
    if not to.startswith(ADDRESS):
        folder = Path(to)
        folder.mkdir(parents=True, exist_ok=True)
        fill(folder, run, record)
        return str(folder)
    name, hub = repository(to), needed("huggingface_hub", "hub", "hf://")
    with tempfile.TemporaryDirectory() as temporary:
        fill(Path(temporary), run, record, name)
        api = hub.HfApi()
        api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=temporary, commit_message=f"raretag: {record.method.name}")
    return f"https://huggingface.co/{name}"


def fetched(address: str) -> Path:
    """The folder of a model that hf://OWNER/NAME or hf://OWNER/NAME@REVISION names; it is kept for the next time."""
    name, _, revision = repository(address).partition("@")
    hub = needed("huggingface_hub", "hub", "hf://")
    try:
        return Path(hub.snapshot_download(name, revision=revision or None, allow_patterns=[CARD, WEIGHTS]))
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        raise UserError(f"'{address}' cannot be fetched: {' '.join(str(error).split())[:300]}") from None


def repository(address: str) -> str:
    """
    >>> repository("hf://me/my-model")
    'me/my-model'
    """
    name = address.removeprefix(ADDRESS).strip("/")
    if name.count("/") != 1:
        raise UserError(f"'{address}' is not the address of a model; expected hf://OWNER/NAME")
    return name


def fill(folder: Path, run: Path, record: Record, name: str | None = None) -> None:
    for file in SHIPPED:
        shutil.copyfile(run / file, folder / file)
    write_text(folder / "README.md", page(record, name or folder.name))


def page(record: Record, name: str) -> str:
    """The model card: what was trained on what, its numbers by group, and how to use it."""
    final, data, labels = record.metrics.final, record.data, record.data.labels
    rows = "\n".join(
        f"| {title} | {_percent(final.mAP.of(key))} | {_percent(final.F1.of(key))} |"
        for title, key in (("all labels", "total"), *((group, group) for group in record.groups.members))
    )
    shown = ", ".join(f"`{label}`" for label in labels[:50]) + (f" and {len(labels) - 50} more" if labels[50:] else "")
    address = f"{ADDRESS}{name}" if "/" in name else name
    return f"""---
library_name: raretag
tags: [multi-label-classification, raretag]
---
# {name}

A multi-label classifier with {len(labels)} labels, trained by [raretag] with the method `{record.method.name}` on
`{data.name}` ({", ".join(f"{count:,} {part}" for part, count in data.items.items())} items).

Measured on: {_measured(final)}. In %:

| labels | mAP | F1 at 0.5 |
|---|---|---|
{rows}

{len(final.excluded_classes)} labels could not be measured. Head, medium and tail are labels by their number of training
positives (edges {record.groups.edges}). Thresholds and calibration are in `{CARD}`, the whole record in `{RECORD}`.

```python
import raretag

raretag.load("{address}").predict(["your items"]).chosen_labels()
```

Labels: {shown}

[raretag]: made with version {record.environment.get("raretag", "unknown")}
"""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _measured(final: Metrics) -> str:
    return f"{final.measured_on}, {final.items:,} items" if final.items else final.measured_on
