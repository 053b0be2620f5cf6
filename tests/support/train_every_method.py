"""Trains every method and solver on a tiny problem, in float64 where there are steps, and writes what each
ends with. Started by test_processes.py.

python tests/support/train_every_method.py OUT            one process
torchrun --nproc-per-node 2 tests/support/train_every_method.py OUT
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch

from raretag.config.settings import compose
from raretag.core import processes, registry
from raretag.core.listener import Listener
from raretag.engine.batches import build_fabric
from raretag.engine.fit import fit
from raretag.engine.prepare import prepare
from raretag.engine.run import solve

warnings.filterwarnings("ignore")
SETTINGS = ["data.largest=12", "data.ratio=4", "data.hide=pal", "data.keep=0.4", "model.name=mlp", "model.width=8"]
SETTINGS += [
    "model.dropout=0.3",
    "train.precision=64-true",
    "train.epochs=2",
    "train.batch_size=9",
    "train.average=0.8",
]
OPTIONS = {
    "focal": ["train.accumulate=4", "model.dropout=0.0"],
    "partial_label_masking": ["method.rate=1.0"],
    "splc": ["method.tau=0.3"],
    "ignore_likely": ["method.tau=0.2"],
}


def main(out: Path) -> None:
    fabric = build_fabric(compose(None, SETTINGS).train)
    fabric.launch()
    ends = {}
    for name in registry.names("solvers"):
        prepared = prepare(compose(None, SETTINGS[:4], method__name=name), fabric)
        solve(prepared, prepared.solver, Listener())
        ends[name] = {"model": prepared.model.state_dict()}
    for name in registry.names("methods"):
        config = compose(None, [*SETTINGS, *OPTIONS.get(name, [])], method__name=name)
        training = prepare(config, fabric).training
        losses = [step.loss for step in fit(training)]
        state = training.state()
        ends[name] = {"losses": losses, "model": state["model"], "average": state["average"], "method": state["method"]}
    if fabric.is_global_zero:
        torch.save(ends, out)
    processes.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
