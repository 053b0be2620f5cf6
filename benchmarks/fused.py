"""What a loss and its gradient cost, relative to torch's binary cross entropy, side by side in one process.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/fused.py [--threads 1 2] [--labels 10000] [--rounds 21]

Forward and backward of each score with class weights, element weights and the mask of PLM; of DB-Focal with the weights
of its own; and of focal, ASL and DB-Focal as they are usually written. CPU time: every measurement stands between two
of the baseline and the median of the ratio is taken. Compiling is not in it; the first call has it.
Goal: 1.5 at the two large sizes, and 2.2 B x C floats beyond the inputs. Result: benchmarks/results/fused.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler says nothing of itself

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus
from torch.profiler import ProfilerActivity, profile

from raretag.core import compiled, fused
from raretag.core.context import Context
from raretag.core.method import build_method
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics, Targets
from raretag.objective.weights import LabelWeights, Product, SideWeights

RESULT = Path(__file__).parent / "results" / "fused.json"
SIZES = [(128, 80), (256, 1_000), (256, 10_000), (64, 100_000)]
ITEMS, GOAL, GOAL_MEMORY = 10_000, 1.5, 2.2
SCORES = ("binary_cross_entropy", "focal", "asymmetric", "multi_focal", "negative_tolerant", "hill")


class Batch:
    def __init__(self, rows: int, labels: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.positives = torch.randint(1, ITEMS // 4, (labels,), generator=generator)
        self.logits = torch.randn(rows, labels, generator=generator, requires_grad=True)
        value = (torch.rand(rows, labels, generator=generator) < 0.05).float()
        self.targets = Targets(value, torch.rand(rows, labels, generator=generator) < 0.8)
        self.index = torch.randperm(ITEMS, generator=generator)[:rows]
        self.ratios = torch.exp(0.3 * torch.randn(labels, generator=generator))  # PLM's, after some epochs
        self.statistics = LabelStatistics.of_counts(self.positives, ITEMS)

    def step(self, loss: Callable[[Tensor], Tensor]) -> float:
        started = time.process_time()
        loss(self.logits).backward()
        self.logits.grad = None
        return time.process_time() - started

    def baseline(self, z: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(z, self.targets.value)

    def ours(self, name: str, mask: bool = True) -> Objective:
        options = {"score": "focal"} if name == "distribution_balanced" else {}
        if mask:
            base = {"name": name, **options}
            method = build_method("partial_label_masking", self.statistics, items=ITEMS, base=base)
            method.objective.keep.target.mul_(self.ratios)
        else:
            method = build_method(name, self.statistics, items=ITEMS, **options)
        weights = Product(LabelWeights(1.0 / self.positives.sqrt()), SideWeights(1.0, 0.5))
        own = name == "distribution_balanced"
        return method.objective if own else method.objective.replaced(weigh=weights)

    def loss(self, objective: Objective) -> Callable[[Tensor], Tensor]:
        return lambda z: objective(z, self.targets, Context(self.index, 3, 10))


def usual_focal(z: Tensor, y: Tensor) -> Tensor:
    price = binary_cross_entropy_with_logits(z, y, reduction="none")
    p = torch.sigmoid(z)
    p_t = p * y + (1 - p) * (1 - y)
    return ((1 - p_t) ** 2 * price).mean()


def usual_asymmetric(z: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(z)
    not_p = (1 - p + 0.05).clamp(max=1)
    price = y * torch.log(p.clamp(min=1e-8)) + (1 - y) * torch.log(not_p.clamp(min=1e-8))
    p_t = p * y + not_p * (1 - y)
    gamma = 0.0 * y + 4.0 * (1 - y)
    return -(price * torch.pow(1 - p_t, gamma)).mean()


def usual_db_focal(z: Tensor, y: Tensor, rarity: Tensor, nu: Tensor) -> Tensor:
    with torch.no_grad():
        r = rarity / (y @ rarity).clamp(min=1e-12)[:, None]
        weight = 0.1 + torch.sigmoid(10.0 * (r - 0.3))
    shifted = z - nu
    scaled = shifted * (1 - y) * 5.0 + shifted * y
    weight = weight / 5.0 * (1 - y) + weight * y
    price = softplus(-scaled) * y + softplus(scaled) * (1 - y)
    return 2.0 * (weight * (1 - torch.exp(-price)) ** 2 * price).mean()


def contenders(batch: Batch) -> dict[str, Callable[[Tensor], Tensor]]:
    y, rarity = batch.targets.value, 1.0 / batch.positives
    nu = 0.05 * torch.log(ITEMS / batch.positives - 1)
    found = {f"{name} + weights + mask": batch.loss(batch.ours(name)) for name in SCORES}
    found["distribution_balanced (focal)"] = batch.loss(batch.ours("distribution_balanced", mask=False))
    found["distribution_balanced (focal) + mask"] = batch.loss(batch.ours("distribution_balanced"))
    found["usual focal"] = lambda z: usual_focal(z, y)
    found["usual asymmetric"] = lambda z: usual_asymmetric(z, y)
    found["usual distribution_balanced (focal)"] = lambda z: usual_db_focal(z, y, rarity, nu)
    return found


def cost(batch: Batch, loss: Callable[[Tensor], Tensor], rounds: int) -> float:
    ratios = []
    before = batch.step(batch.baseline)
    for _ in range(rounds):
        seconds = batch.step(loss)
        after = batch.step(batch.baseline)
        ratios.append(2 * seconds / (before + after))
        before = after
    return median(ratios)


def floats(batch: Batch, loss: Callable[[Tensor], Tensor]) -> float:
    """The most that is allocated at once, in matrices of the size of the logits."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        batch.step(loss)
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most / (4 * batch.logits.numel())


def measured(batch: Batch, name: str, loss: Callable[[Tensor], Tensor], rounds: int) -> dict[str, float | bool]:
    size = batch.logits.numel()
    rounds *= 10 if size < 100_000 else 1
    started = time.perf_counter()
    batch.step(loss)
    first = time.perf_counter() - started
    row: dict[str, float | bool] = {
        "cost": round(cost(batch, loss, rounds), 3),
        "floats": round(floats(batch, loss), 2),
    }
    row["first_call_seconds"] = round(first, 1)
    if size >= compiled.LARGE and not name.startswith("usual"):
        row["met"] = row["cost"] <= GOAL and row["floats"] <= GOAL_MEMORY
        with fused.using("blocks"):
            row["cost_blocks"] = round(cost(batch, loss, max(3, rounds // 7)), 3)
            row["floats_blocks"] = round(floats(batch, loss), 2)
    return row


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=21)
    arguments.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--labels", type=int, nargs="+", default=[labels for _, labels in SIZES])
    chosen = arguments.parse_args()
    known = json.loads(RESULT.read_text())["threads"] if RESULT.exists() else {}
    about = {"rounds": chosen.rounds, "torch": torch.__version__, "goal": GOAL, "goal_floats": GOAL_MEMORY}
    for threads in chosen.threads:
        torch.set_num_threads(threads)
        for rows, labels in SIZES:
            if labels not in chosen.labels:
                continue
            batch = Batch(rows, labels)
            table = known.setdefault(str(threads), {})[f"{rows}x{labels}"] = {}
            print(f"\n{rows} x {labels:,}, {threads} thread(s)        cost / BCE   floats   first call", flush=True)
            for name, loss in contenders(batch).items():
                table[name] = row = measured(batch, name, loss, chosen.rounds)
                said = f"{name:38s} {row['cost']:8.2f} {row['floats']:8.2f} {row['first_call_seconds']:8.1f} s"
                if "met" in row:
                    said += f"   goal {GOAL}, {GOAL_MEMORY}: {'met' if row['met'] else 'MISSED'}"
                    said += f"   in blocks {row['cost_blocks']:.2f}, {row['floats_blocks']:.2f}"
                print(said, flush=True)
            RESULT.write_text(json.dumps({"about": about, "threads": known}, indent=1) + "\n")


if __name__ == "__main__":
    main()
