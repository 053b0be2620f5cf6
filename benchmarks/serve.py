"""Load on `raretag serve`, on this machine only: requests per second, p50 and p99, and memory over many requests.

    python benchmarks/serve.py --requests 100000 --clients 4

Trains a small model of texts (TF-IDF, 20 labels), starts the server on a free port of 127.0.0.1 and asks it over kept
connections, one text a request, and then 32 texts a request. Result: benchmarks/results/serve.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

RESULT = Path(__file__).parent / "results" / "serve.json"
WORDS = [f"word{n}" for n in range(2000)]


def make_run(folder: Path) -> Path:
    random.seed(0)
    rows = []
    for n in range(2000):
        label = random.randrange(20)
        words = random.choices(WORDS, k=30) + random.choices(WORDS[label * 20 : label * 20 + 20], k=5)
        rows.append({"text": " ".join(words), "tags": [f"label{label}", f"label{n % 20}"]})
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command = [sys.executable, "-m", "raretag", "train", "--data", str(folder / "texts.jsonl"), "--out"]
    options = ["--method", "logistic_regression"]
    subprocess.run([*command, str(folder / "run"), *options], check=True, capture_output=True)
    return folder / "run"


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def ask(address: str, count: int, batch: int, seconds: list[float], failed: list[int]) -> None:
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    generator = random.Random(threading.get_ident())
    for _ in range(count):
        items = [" ".join(generator.choices(WORDS, k=30)) for _ in range(batch)]
        begin = time.perf_counter()
        connection.request("POST", "/predict", json.dumps({"items": items}), {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        seconds.append(time.perf_counter() - begin)
        if answer.status != 200:
            failed.append(answer.status)
    connection.close()


def load(address: str, pid: int, requests: int, clients: int, batch: int) -> dict[str, Any]:
    seconds: list[float] = []
    failed: list[int] = []
    resident = []
    begin = time.perf_counter()
    for _ in range(10):  # memory after each tenth
        threads = [
            threading.Thread(target=ask, args=(address, requests // 10 // clients, batch, seconds, failed))
            for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        resident.append(round(memory(pid), 1))
        print(f"{len(seconds):,} requests, {resident[-1]} MB", flush=True)
    wall = time.perf_counter() - begin
    return {
        "requests": len(seconds), "clients": clients, "items per request": batch, "failed": len(failed),
        "requests per second": round(len(seconds) / wall, 1),
        "items per second": round(len(seconds) * batch / wall, 1),
        "p50 ms": round(1000 * float(np.quantile(seconds, 0.5)), 2),
        "p99 ms": round(1000 * float(np.quantile(seconds, 0.99)), 2),
        "resident MB after each tenth": resident,
        "CPU seconds of the clients": round(resource.getrusage(resource.RUSAGE_SELF).ru_utime, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder))
        command = [sys.executable, "-m", "raretag", "serve", str(run), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        try:
            load(address, server.pid, 200, 2, 1)  # warm
            found = {
                "one text": load(address, server.pid, arguments.requests, arguments.clients, 1),
                "32 texts": load(address, server.pid, max(arguments.requests // 20, 200), arguments.clients, 32),
            }
        finally:
            server.terminate()
            server.wait()
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
