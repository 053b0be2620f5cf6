"""How many indices per second the class-aware sampler draws, on one thread.

    python benchmarks/sampling.py

Generated long-tailed labels, CPU time of the quickest of three epochs; goal: 10 million per second.
Result: benchmarks/results/sampling.json.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array

from raretag.sampling.class_aware import ClassAware

RESULT = Path(__file__).parent / "results" / "sampling.json"
GOAL = 10e6


def main() -> None:
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    found = {}
    for items, labels in ((100_000, 80), (1_000_000, 80), (1_000_000, 1000)):
        share = 0.2 * 0.01 ** (np.arange(labels) / labels)
        rows = [np.flatnonzero(generator.random(items) < one) for one in share]
        column = np.repeat(np.arange(labels), [len(some) for some in rows])
        ones = np.ones(len(column), dtype=np.int8)
        sampler = ClassAware(csr_array((ones, (np.concatenate(rows), column)), shape=(items, labels)))
        speed, drawn = 0.0, 0
        for epoch in range(3):
            started = time.process_time()
            drawn = len(sampler.epoch(epoch))
            speed = max(speed, drawn / (time.process_time() - started))
        found[f"{items} x {labels}"] = {"drawn": drawn, "per_second": round(speed), "met": speed >= GOAL}
        print(f"{items:>9,} x {labels:>5,}: {drawn:>11,} indices, {speed / 1e6:.1f} million per second (goal 10)")
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
