"""Batch normalisation gives the same numbers on one process and on two, and on one it is torch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from raretag.models.layers import BatchNorm1d, BatchNorm2d, over_processes
from raretag.models.small_resnet import SmallResnet
from support.two_processes import in_two

PROCESSES = 2
ROWS = {"even": ([0, 2, 4], [1, 3, 5]), "uneven": ([0, 1, 2, 3, 4], [5]), "one without rows": ([0, 1, 2, 3, 4, 5], [])}


def model(name: str) -> nn.Module:
    torch.manual_seed(0)
    made: dict[str, nn.Module] = {
        "rows": nn.Sequential(nn.Linear(4, 5), BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)),
        "plain": nn.Sequential(nn.Linear(4, 5), BatchNorm1d(5, affine=False, momentum=None), nn.Tanh()),
        "untracked": nn.Sequential(nn.Linear(4, 5), BatchNorm1d(5, track_running_stats=False), nn.Tanh()),
        "maps": nn.Sequential(nn.Conv2d(1, 4, 3), BatchNorm2d(4), nn.Tanh(), nn.Flatten()),
        "resnet": SmallResnet(1, depth=8, width=2),
    }
    return made[name].double()


def steps(name: str, rows: list[int]) -> dict[str, Tensor]:
    """Gradients of a loss that is no sum over rows of separate terms, after two batches, and the running moments."""
    network = model(name)
    generator = torch.Generator().manual_seed(1)
    shape = (2, 6, 4) if name not in ("maps", "resnet") else (2, 6, 1, 8, 8)
    batches = 3 * torch.randn(shape, generator=generator, dtype=torch.float64) + 1
    factor = torch.rand(6, 1, generator=generator, dtype=torch.float64)
    inputs = torch.empty(0)
    for batch in batches:
        inputs = batch[rows].clone().requires_grad_()
        loss = (factor[rows] * network(inputs).square()).sum()
        loss.backward()
    gradients = {key: value.grad for key, value in network.named_parameters()}
    assert inputs.grad is not None
    return {"inputs": inputs.grad, **gradients, **{f"state {k}": v for k, v in network.state_dict().items()}}


CASES = [(name, rows) for name in ("rows", "plain", "untracked", "maps", "resnet") for rows in ROWS]


def work(rank: int, folder: str) -> None:
    torch.save([steps(name, ROWS[rows][rank]) for name, rows in CASES], f"{folder}/{rank}.pt")


def test_two_processes_have_the_gradients_and_running_moments_of_one(tmp_path: Path) -> None:
    in_two(work, tmp_path)
    shares = [torch.load(tmp_path / f"{rank}.pt") for rank in range(PROCESSES)]
    for number, (name, rows) in enumerate(CASES):
        one = steps(name, list(range(6)))
        for key, expected in one.items():
            parts = [shares[rank][number][key] for rank in range(PROCESSES)]
            if key == "inputs":
                found = torch.empty_like(expected)
                for rank in range(PROCESSES):
                    found[ROWS[rows][rank]] = parts[rank]
            elif key.startswith("state "):
                torch.testing.assert_close(parts[0], parts[1], rtol=0, atol=0)
                found = parts[0]
            else:
                found = parts[0] + parts[1]
            torch.testing.assert_close(
                found,
                expected,
                rtol=1e-10,
                atol=1e-10,
                msg=lambda text: f"{name}, {rows}, {key}: {text}",  # noqa: B023
            )


def both(ours: nn.Module, theirs: nn.Module, shape: tuple[int, ...]) -> None:
    theirs.load_state_dict(ours.state_dict())
    inputs = torch.randn(shape)
    for training in (True, False):
        assert torch.equal(ours.train(training)(inputs), theirs.train(training)(inputs))
    assert all(torch.equal(ours.state_dict()[key], value) for key, value in theirs.state_dict().items())


def test_one_process_is_torchs_own() -> None:
    both(BatchNorm1d(3), nn.BatchNorm1d(3), (5, 3))
    both(BatchNorm2d(3), nn.BatchNorm2d(3), (5, 3, 2, 2))


def test_layers_from_elsewhere_are_turned_into_ours_and_keep_their_weights() -> None:
    network: Any = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(2, eps=0.1), nn.ReLU()))
    before = {key: value.clone() for key, value in network.state_dict().items()}
    turned: Any = over_processes(network)
    assert [type(turned[0]), type(turned[1][0]), type(turned[1][1])] == [BatchNorm1d, BatchNorm2d, nn.ReLU]
    assert turned[1][0].eps == 0.1
    assert all(torch.equal(before[key], value) for key, value in turned.state_dict().items())
