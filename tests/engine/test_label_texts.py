"""What labels are called as evidence: only where it helps, for labels that training never saw too, and shipped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import raretag
from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.engine.label_texts import texts_of
from raretag.engine.run import run as run_config

TOPICS = ["cat", "dog", "boat", "plane", "tree", "road", "rain", "wine", "bread", "chair", "lamp", "stone"]
NOISE = [f"word{number}" for number in range(30)]
TEXTS = ["data.text=text", "data.labels=tags", "data.representation=tfidf", "effort=quick"]
QUIET = Listener()


def written(folder: Path) -> Path:
    """Texts with the names of most of their topics among other words; in training nobody has marked a boat."""
    rng = np.random.default_rng(0)
    lines = ["id,text,tags,split"]
    for item in range(200):
        part = "test" if item >= 40 else "train"
        topics = rng.choice(TOPICS, size=2, replace=False)
        words = [*(topic for topic in topics if rng.random() < 0.8), *rng.choice(NOISE, 6)]
        tags = [topic for topic in topics if part == "test" or topic != "boat"]
        lines.append(f"{item},{' '.join(rng.permutation(words))},{';'.join(tags)},{part}")
    path = folder / "texts.csv"
    path.write_text("\n".join(lines))
    return path


def run(path: Path, *settings: str, out: Path | None = None):
    return run_config(compose(None, [*TEXTS, *settings], str(path)), out, listener=QUIET)


def ap_of(found, label: str) -> float:
    place = found.data.train.labels.names.index(label)
    return found.record.metrics.final.per_class["average_precision"][place]


def test_a_label_that_training_never_saw_gets_scores(tmp_path: Path) -> None:
    path = written(tmp_path)
    plain, named = run(path, "data.label_texts=none"), run(path, "data.label_texts=names")
    assert named.record.metrics.final.mAP.total > plain.record.metrics.final.mAP.total
    assert ap_of(named, "boat") > ap_of(plain, "boat") + 0.3


def test_auto_is_for_texts_behind_an_encoder_alone(tmp_path: Path) -> None:
    found = run(written(tmp_path))
    assert "label_texts" not in found.record.data.notes


def test_a_file_gives_labels_their_texts(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("label,text\nCV,computer vision\nLG,\n")
    assert texts_of(str(path), ("CV", "LG", "RO")) == {"CV": "computer vision"}
    assert texts_of("names", ("machine_learning",)) == {"machine_learning": "machine learning"}
    with pytest.raises(UserError, match="no text for a label of the data: its labels are such as 'CV'"):
        texts_of(str(path), ("joy",))
    path.write_text("name,text\na,b\n")
    with pytest.raises(UserError, match="expected label and text"):
        texts_of(str(path), ("a",))


def test_what_cannot_use_them_says_so(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(60, 3))
    rows = [f"{i},{a:.3f},{b:.3f},{c:.3f},{'x' if a > 0 else 'y'}" for i, (a, b, c) in enumerate(numbers)]
    table = tmp_path / "numbers.csv"
    table.write_text("\n".join(["id,f1,f2,f3,tags", *rows]))
    settings = ["data.label_texts=names", "effort=quick", "data.labels=tags", "train.epochs=1"]
    for method, message in (("blend", "for items that are texts"), ("focal", "linear in the items' vectors")):
        with pytest.raises(UserError, match=message):
            run_config(compose(None, [*settings, f"method.name={method}"], str(table)), None, listener=QUIET)


def test_the_weights_hold_all_of_it(tmp_path: Path) -> None:
    """What a loaded model predicts is what the run measured: nothing beside the weights is needed."""
    found = run(written(tmp_path), "data.label_texts=names", out=tmp_path / "run")
    assert found.record.data.notes["label_texts"]["share"] != "0"
    logits = raretag.load(tmp_path / "run").logits(found.data.test.inputs)
    torch.testing.assert_close(logits, found.logits["test"])
