"""What two processes do, in tests: started together, ended as a run ends, and stopped if they never end.

A group of processes is left as `raretag train` leaves it (core/processes.py): taken apart in another way, Gloo's thread
can lock up once in some hundred times. If one does so all the same, the test fails after five minutes instead of
holding the suite.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from raretag.core import processes

MOST_SECONDS = 300
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def in_two(work, folder):
    """`work(rank, folder)` in two processes of one group."""
    started = mp.spawn(_member, args=(work, str(folder)), nprocs=2, join=False)
    deadline = time.monotonic() + MOST_SECONDS
    while not started.join(timeout=5):
        if time.monotonic() > deadline:
            for process in started.processes:
                process.kill()
            raise TimeoutError(f"two processes did not end within {MOST_SECONDS} seconds")


def _member(rank, work, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    work(rank, folder)
    processes.leave()


def run_whole(command, **more):
    """A command and all that it starts, which must end well and in time."""
    with subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **more,
    ) as done:
        try:
            _, said = done.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            raise
    assert done.returncode == 0, said[-3000:]


def assert_two_equal_one(main, script, folder, names):
    """`main(folder, batch_size)` writes a file NAME.pt of tensors each; batches of 8 rows, or of 4 in each of two."""
    main(str(folder / "one"), "8")
    run_whole([*TORCHRUN, Path(script).resolve(), folder / "two", "4"])
    for name in names:
        first, second = (torch.load(folder / which / f"{name}.pt", weights_only=True) for which in ("one", "two"))
        assert first.keys() == second.keys()
        for key in first:
            torch.testing.assert_close(first[key], second[key], rtol=0, atol=1e-9)
