"""Sums and rows over the processes of a run; with one process nothing happens."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from torch import Tensor

_LEFT: list[object] = []


def count() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def started_by_others() -> bool:
    """Whether torchrun, a cluster or an earlier process of the run has started this one."""
    return any(name in os.environ for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def join_again(backend: str) -> None:
    """Form the group of processes of a torchrun that has begun again.

    Its store lives on, with the addresses of processes that have ended: whoever asks it for the others waits for ever.
    So every attempt has keys of its own. The first one is left to the engine, which finds an empty store.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if attempt == "0" or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or dist.is_initialized():
        return
    from torch._C._distributed_c10d import PrefixStore, TCPStore  # there are systems without

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, is_master=False)
    dist.init_process_group(backend, store=PrefixStore(f"attempt {attempt}", store), rank=rank, world_size=size)


def leave() -> None:
    """End the group of processes: threads of its backend that outlive the interpreter can abort a finished program.

    Gloo's thread needs the interpreter's lock to drop the tensors of the last sum. If the group is taken apart before
    that (by the destructor of DDP, say), the one who does so holds the lock and waits for the thread: neither ends.
    So the thread gets time first, and the group is kept until the interpreter itself ends.
    """
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        time.sleep(0.2)  # without the lock
        _LEFT.append(dist.group.WORLD)
        dist.destroy_process_group()


def total(value: Tensor) -> Tensor:
    """The sum over all processes, without gradient. Means are made of two totals, never of averages."""
    value = value.detach()
    if count() > 1:
        value = value.clone()
        dist.all_reduce(value)
    return value


def rows(value: Tensor) -> Tensor:
    """The rows [B, ...] of all processes in the order one process would have them, without gradient.

    Items are dealt out like cards (row i of process r was row i * processes + r), so the rows are interleaved again.
    """
    value = value.detach().contiguous()
    if count() == 1:
        return value
    sizes = [torch.zeros((), dtype=torch.int64, device=value.device) for _ in range(count())]
    dist.all_gather(sizes, torch.tensor(len(value), device=value.device))
    longest = max(int(size) for size in sizes)
    padded = torch.cat([value, value.new_zeros(longest - len(value), *value.shape[1:])])
    shares = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(shares, padded)
    dealt = torch.stack(shares, dim=1).flatten(0, 1)  # [longest * processes, ...]
    real = torch.arange(longest)[:, None] < torch.stack(sizes).cpu()[None, :]
    return dealt[real.flatten().to(value.device)]
