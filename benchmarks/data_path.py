"""Where the time of training on cached features goes: the model, or Python around it.

    python benchmarks/data_path.py [folder with VOCdevkit] [--rounds 5]

VOC-MLT with ready-made features (1,028 training photographs x 1,280 numbers, 20 labels), class-aware sampling. The real
loop (`engine.fit`) runs for some epochs; then the same batches go through each of its parts alone. CPU seconds of one
thread, the quickest of several rounds. "around" is what the loop costs beyond its parts. Batches of 32 are what
`raretag train` takes for so few items; larger ones are shown beside them. An epoch is the 1,028 photographs once; goal:
50 a second for the linear model in batches of 256, and more than half of the time in model, loss and optimizer. Result:
benchmarks/results/data_path.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from raretag.config.settings import compose
from raretag.core.context import Context
from raretag.engine.batches import build_fabric, cut
from raretag.engine.fit import fit
from raretag.engine.prepare import Prepared, prepare

HERE = Path(__file__).parent
RESULT = HERE / "results" / "data_path.json"
ITEMS, GOAL = 1028, 50.0
MODELS = {"linear": "model.layers=0", "one hidden layer of 1,024": "model.width=1024"}


def clock(action: Callable[[], Any], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        started = time.process_time()
        action()
        seconds.append(time.process_time() - started)
    return min(seconds)


def prepared(batch: int, model: str) -> Prepared:
    changes = ["data.features=mobilenetv2", f"train.batch_size={batch}", "train.epochs=4", "model.name=mlp", model]
    config = compose(None, [*changes, "sampler.name=class_aware", "train.optimizer=sgd"], data="voc_mlt")
    return prepare(config, build_fabric(config.train))


def parts(ready: Prepared, rounds: int) -> dict[str, float]:
    """CPU milliseconds a step of each part of the loop, alone."""
    training, settings = ready.training, ready.training.settings
    items, method = training.items, training.method
    sampler = training.make_sampler(None)
    batches = cut(sampler.epoch(0), settings.batch_size)
    inputs = [items.inputs.batch(rows) for rows in batches]
    targets = [items.labels.targets(rows) for rows in batches]
    model, optimizer = training.model.train(), training.make_optimizer()
    logits = [model(some).detach() for some in inputs]

    def each(take: Callable[[Tensor], Any]) -> Callable[[], None]:
        def run() -> None:
            for rows in batches:  # not kept: the loop forgets them as well
                take(rows)

        return run

    def losses() -> None:
        for rows, z, some in zip(batches, logits, targets, strict=True):
            method.loss(z.requires_grad_(), some, Context(index=rows)).backward()

    def passes() -> None:
        for some in inputs:
            model(some).sum().backward()

    def steps() -> None:
        for _ in batches:
            optimizer.step()

    found = {
        "order of the items": lambda: sampler.epoch(0),
        "features of a batch": each(items.inputs.batch),
        "labels of a batch": each(items.labels.targets),
        "model, forward and backward": passes,
        "loss, forward and backward": losses,
        "optimizer": steps,
    }
    return {name: 1e3 * clock(action, rounds) / len(batches) for name, action in found.items()}


def whole(batch: int, model: str, rounds: int) -> float:
    """CPU milliseconds a step of the real loop."""
    quickest = float("inf")
    for _ in range(rounds):
        training = prepared(batch, model).training
        started, steps = time.process_time(), 0
        for _ in fit(training):
            steps += 1
        quickest = min(quickest, 1e3 * (time.process_time() - started) / steps)
    return quickest


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument(
        "folder", nargs="?", default=os.environ.get("RARETAG_DATA", HERE.parents[1] / "shared" / "data")
    )
    arguments.add_argument("--rounds", type=int, default=5)
    chosen = arguments.parse_args()
    os.environ["RARETAG_DATA"] = str(chosen.folder)
    torch.set_num_threads(1)
    found = []
    for name, model in MODELS.items():
        for batch in (32, 256):
            pieces = parts(prepared(batch, model), chosen.rounds)
            total = whole(batch, model, chosen.rounds)
            pieces["around"] = total - sum(pieces.values())
            computing = sum(
                pieces[part] for part in ("model, forward and backward", "loss, forward and backward", "optimizer")
            )
            data = sum(pieces[part] for part in ("order of the items", "features of a batch", "labels of a batch"))
            epochs = 1e3 * batch / total / ITEMS
            row = {
                "model": name,
                "batch": batch,
                "milliseconds": total,
                "parts": pieces,
                "computing": computing / total,
            }
            found.append(row | {"epochs_per_second": epochs})
            print(f"{name}, batches of {batch}: {total:.2f} ms a step, {epochs:.1f} epochs/s")
            for part, milliseconds in pieces.items():
                print(f"    {part:<30}{milliseconds:>8.3f} ms{milliseconds / total:>8.0%}")
            print(f"    computing {computing / total:.0%}, data {data / total:.0%}", flush=True)
    quick = next(row for row in found if row["model"] == "linear" and row["batch"] == 256)
    print(f"goal {GOAL:g} epochs/s: {'met' if quick['epochs_per_second'] >= GOAL else 'MISSED'}")
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
