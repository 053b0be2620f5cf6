"""A sampler of this room for a torch `DataLoader`, over one process or many, that an engine cannot replace unnoticed.

    sampler = ClassAware(positives, seed=0)
    loader = DataLoader(dataset, batch_size=32, sampler=Stream(sampler, rank=rank, processes=processes))
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)

Each process takes every n-th index of the epoch's one global order, so the batch of all processes is the same for any
number of them. Nothing is padded: if the order does not divide evenly, the last ones have one index less.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch.utils.data.distributed import DistributedSampler

from raretag.core.errors import UserError
from raretag.core.protocols import Sampler


class Stream(DistributedSampler):  # type: ignore[type-arg]
    """A sampler of this room for a torch `DataLoader`: each of several processes takes every n-th row.

    It is a DistributedSampler, which Lightning, Fabric and Accelerate leave alone; if one is put around it all the
    same, an error is raised, because the indices would be shared out twice.

    >>> import raretag
    >>> labels = raretag.LabelStore.from_lists([["cat"], ["cat"], ["cat", "dog"]])
    >>> stream = raretag.sampling.Stream(raretag.sampling.Uniform(labels.sparse()), rank=0, processes=2)
    >>> stream.set_epoch(1)
    >>> list(stream)
    [0, 2]
    """

    def __init__(self, order: Sampler, *, rank: int = 0, processes: int = 1) -> None:
        if not 0 <= rank < processes:
            raise UserError(f"rank {rank} is not one of {processes} processes; expected 0 to {processes - 1}")
        self.order, self.rank, self.num_replicas = order, rank, processes
        self.epoch, self.position = 0, 0

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch; a position that was loaded for this very epoch stays."""
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def __iter__(self) -> Iterator[int]:
        refuse_to_be_wrapped(sys._getframe(1))
        mine = self.order.epoch(self.epoch)[self.rank :: self.num_replicas].tolist()
        for index in mine[self.position :]:
            self.position += 1
            yield index
        self.position = 0

    def __len__(self) -> int:
        total = len(self.order.epoch(self.epoch))
        return (total - self.rank + self.num_replicas - 1) // self.num_replicas

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.position = state["epoch"], state["position"]


def refuse_to_be_wrapped(caller: Any) -> None:
    """Look for another distributed sampler among the callers."""
    for _ in range(4):
        if caller is None:
            return
        owner = caller.f_locals.get("self")
        if (
            not isinstance(owner, Stream)
            and "Distributed" in type(owner).__name__
            and "Sampler" in type(owner).__name__
        ):
            raise UserError(
                f"{type(owner).__name__} was put around this stream, which would share its indices out twice: "
                "switch it off (Lightning: use_distributed_sampler=False; Accelerate: do not prepare the sampler)"
            )
        caller = caller.f_back
