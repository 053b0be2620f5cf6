"""A script of trainings, run in one process and by torchrun in two: both leave the same tensors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch


def assert_two_equal_one(main, script, folder, names):
    """`main(folder, batch_size)` writes a file NAME.pt of tensors each; batches of 8 rows, or of 4 in each of two."""
    main(str(folder / "one"), "8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    two = subprocess.run([*launch, str(Path(script).resolve()), str(folder / "two"), "4"], capture_output=True)
    assert two.returncode == 0, two.stderr[-3000:]
    for name in names:
        first, second = (torch.load(folder / which / f"{name}.pt", weights_only=True) for which in ("one", "two"))
        assert first.keys() == second.keys()
        for key in first:
            torch.testing.assert_close(first[key], second[key], rtol=0, atol=1e-9)
