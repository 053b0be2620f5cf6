"""What a training step of each method costs, relative to binary cross entropy's, side by side in one process.

    python benchmarks/step_cost.py [--rounds 15] [--threads 1]

ResNet-12 on 32 x 32 images, batch 128, 20 labels, SGD. CPU time; every step stands between two BCE
steps and the median of the ratio to them is taken, so that a busy machine disturbs little. Goals: 1.05 for methods that
are a loss, 3.2 for COMIC with its three backbones. Result: benchmarks/results/step_cost.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from statistics import median

import torch

from raretag.core import registry
from raretag.core.context import Context
from raretag.core.method import build_method
from raretag.core.targets import Targets
from raretag.labels.store import LabelStore
from raretag.models.small_resnet import SmallResnet

RESULT = Path(__file__).parent / "results" / "step_cost.json"
BATCH, LABELS, ITEMS = 128, 20, 4096
BASELINE = "binary_cross_entropy"
GOAL, GOAL_COMIC = 1.05, 3.2


class Stepper:
    def __init__(self, name: str, labels: LabelStore) -> None:
        statistics = labels.statistics()
        self.method = build_method(name, statistics, items=ITEMS)
        torch.manual_seed(0)

        def make_head(features: int) -> torch.nn.Module:
            return registry.build(
                "models.heads", self.method.head, {}, features=features, labels=LABELS, statistics=statistics
            )

        self.model = registry.build(
            "models.branches",
            self.method.branches,
            {},
            make_backbone=lambda: SmallResnet(3, depth=12),
            make_head=make_head,
            labels=LABELS,
            statistics=statistics,
        )
        groups = [{"params": list(self.model.parameters())}, *self.method.parameter_groups(0.01)]
        self.optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9)

    def step(self, images: torch.Tensor, targets: Targets, rows: torch.Tensor) -> float:
        started = time.process_time()
        self.method.loss(self.model(images), targets, Context(index=rows, epoch=3, epochs=10)).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.process_time() - started


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--threads", type=int, default=1)
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(chosen.threads)
    generator = torch.Generator().manual_seed(0)
    dense = (torch.rand(ITEMS, LABELS, generator=generator) < 0.3 * 0.8 ** torch.arange(LABELS)).float()
    dense[torch.rand(ITEMS, LABELS, generator=generator) < 0.5] = torch.nan
    labels = LabelStore.from_dense(dense)
    images = torch.randn(BATCH, 3, 32, 32, generator=generator)

    steppers = {name: Stepper(name, labels) for name in registry.names("methods")}
    ratios: dict[str, list[float]] = {name: [] for name in steppers}
    for number in range(chosen.rounds + 2):
        rows = torch.randint(ITEMS, (BATCH,), generator=generator)
        targets = labels.targets(rows)
        base = steppers[BASELINE].step(images, targets, rows)
        for name, stepper in steppers.items():
            seconds = stepper.step(images, targets, rows)
            again = steppers[BASELINE].step(images, targets, rows)  # a baseline on both sides of every step
            if number >= 2:  # the first rounds warm up
                ratios[name].append(2 * seconds / (base + again))
            base = again

    result = {}
    for name, values in ratios.items():
        goal = GOAL_COMIC if steppers[name].method.branches != "single" else GOAL
        cost = median(values)
        result[name] = {"cost": round(cost, 3), "goal": goal, "met": cost <= goal}
        print(f"{name:24s} {cost:6.3f}   goal {goal:4.2f}   {'met' if cost <= goal else 'MISSED'}", flush=True)
    about = {"rounds": chosen.rounds, "threads": chosen.threads, "torch": torch.__version__, "baseline": BASELINE}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"about": about, "methods": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
