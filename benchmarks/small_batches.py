"""What a step of every method costs on small batches, relative to torch's binary cross entropy, one thread.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/small_batches.py [--rounds 60] [--only focal hill]

Forward, backward and what the method learns from the batch (`method.loss` in training mode), by the defaults of each
method, half of all labels unknown. BCE is `binary_cross_entropy_with_logits(z, y, weight=observed)` on the same logits
and targets: unknown labels do not count, in one call, with the conversion of the bool mask. CPU time: every measurement
stands between two of the baseline and the median of the ratio is taken. Goal: 2.
Result: benchmarks/results/small_batches.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from raretag.core import registry
from raretag.core.context import Context
from raretag.core.method import Method, build_method
from raretag.core.targets import Targets
from raretag.labels.store import LabelStore

RESULT = Path(__file__).parent / "results" / "small_batches.json"
SIZES = [(128, 80), (256, 1_000)]
ITEMS, GOAL = 4096, 2.0
OWN_MODEL = ("comic", "oltr")  # more than logits comes from their models: see step_cost.py


class Batch:
    def __init__(self, rows: int, labels: int) -> None:
        generator = torch.Generator().manual_seed(0)
        often = 0.2 * 0.998 ** (torch.arange(labels) * 1_000 / labels)
        dense = (torch.rand(ITEMS, labels, generator=generator) < often).float()
        dense[torch.rand(ITEMS, labels, generator=generator) < 0.5] = torch.nan
        self.store = LabelStore.from_dense(dense)
        self.index = torch.randperm(ITEMS, generator=generator)[:rows]
        self.targets: Targets = self.store.targets(self.index)
        self.logits = (2.0 * torch.randn(rows, labels, generator=generator) - 2.0).requires_grad_()

    def method(self, name: str) -> Method:
        method = build_method(name, self.store.statistics(), items=ITEMS)
        if name == "partial_label_masking":  # its ratios, after some epochs; at first nothing is masked
            generator = torch.Generator().manual_seed(1)
            method.objective.keep.target.mul_(torch.exp(0.3 * torch.randn(self.logits.shape[1], generator=generator)))
        return method

    def baseline(self) -> Tensor:
        weight = self.targets.observed.to(self.logits.dtype)
        return binary_cross_entropy_with_logits(self.logits, self.targets.value, weight=weight)

    def step(self, loss: Callable[[], Tensor]) -> float:
        started = time.process_time()
        loss().backward()
        self.logits.grad = None
        return time.process_time() - started

    def cost(self, loss: Callable[[], Tensor], rounds: int) -> tuple[float, float]:
        """The ratio, and the microseconds of a step."""
        for _ in range(3):
            self.step(loss)
        ratios, seconds = [], []
        before = self.step(self.baseline)
        for _ in range(rounds):
            seconds.append(self.step(loss))
            after = self.step(self.baseline)
            ratios.append(2 * seconds[-1] / (before + after))
            before = after
        return median(ratios), 1e6 * median(seconds)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=60)
    arguments.add_argument("--only", nargs="*", default=[])
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names = chosen.only or [name for name in registry.names("methods") if name not in OWN_MODEL]
    batches = {f"{rows}x{labels}": Batch(rows, labels) for rows, labels in SIZES}
    table: dict[str, dict[str, float]] = {}
    bare = {
        size: batch.cost(lambda b=batch: binary_cross_entropy_with_logits(b.logits, b.targets.value), chosen.rounds)
        for size, batch in batches.items()
    }
    print(
        "BCE without a mask: " + "   ".join(f"{size} {ratio:5.2f} {us:6.0f} us" for size, (ratio, us) in bare.items())
    )
    for name in names:
        row = {}
        said = f"{name:26s}"
        for size, batch in batches.items():
            method = batch.method(name)
            context = Context(batch.index, 3, 10)
            rounds = chosen.rounds * (4 if size == "128x80" else 1)
            ratio, micro = batch.cost(lambda m=method, b=batch, c=context: m.loss(b.logits, b.targets, c), rounds)
            row[size] = round(ratio, 2)
            said += f"   {size} {ratio:6.2f} {micro:7.0f} us {'' if ratio <= GOAL else 'MISSED':6s}"
        table[name] = row
        print(said, flush=True)
    if not chosen.only:
        about = {"rounds": chosen.rounds, "threads": 1, "torch": torch.__version__, "goal": GOAL}
        RESULT.write_text(json.dumps({"about": about, "methods": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
