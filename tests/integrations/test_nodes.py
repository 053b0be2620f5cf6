"""Two machines, simulated by two groups of processes that torchrun starts apart: the record of one process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from support.two_processes import MOST_SECONDS

pytestmark = pytest.mark.integration

TRAIN = ["train", "--method", "partial_label_masking", "--logger", "none", "--set", "model.name=mlp"]
TRAIN += [word for one in ("epochs=2", "batch_size=128", "precision=64-true") for word in ("--set", f"train.{one}")]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def numbers(folder):
    record = json.loads((folder / "record.json").read_text())
    return [record["metrics"]["final"]["mAP"]["total"], *(row["loss"] for row in record["metrics"]["epochs"])]


def test_two_nodes_give_the_record_of_one_process(tmp_path):
    alone = subprocess.run([sys.executable, "-m", "raretag", *TRAIN, "--out", tmp_path / "one"], capture_output=True)
    assert alone.returncode == 0, alone.stderr
    where = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    launch = [sys.executable, "-m", "torch.distributed.run"]
    nodes = [
        subprocess.Popen(
            [*launch, "--node-rank", str(rank), *where, "-m", "raretag", *TRAIN, "--out", tmp_path / "two"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(2)
    ]
    try:
        ends = [node.communicate(timeout=MOST_SECONDS) for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    assert [node.returncode for node in nodes] == [0, 0], ends[0][1][-2000:]
    assert numbers(tmp_path / "two") == pytest.approx(numbers(tmp_path / "one"), abs=1e-9)
