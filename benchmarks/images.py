"""How many images per second come from disk as training batches.

    python benchmarks/images.py [folder with VOCdevkit]

The folder is `$RARETAG_DATA` or `../shared/data` unless given. Decodes, augments and normalises the same images of
VOC 2012 with 1 and 2 worker processes, as the training loop does, and checks files as `verify` does before training.
Speeds are of the wall clock, so they need an idle machine. The share of the CPU time outside of the workers needs none:
what they do can go to any number of cores, the rest to one. Result: benchmarks/results/images.json.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import PIL
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from raretag.data.inputs.images import Augment, Images, verify

HERE = Path(__file__).parent
IMAGES, BATCH, SIZE = 1024, 32, 128


class Batches(Dataset[Tensor]):
    def __init__(self, images: Images) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images) // BATCH

    def __getitem__(self, number: int) -> Tensor:
        return self.images.batch(torch.arange(number * BATCH, (number + 1) * BATCH), epoch=0)


def speed(images: Images, workers: int) -> tuple[float, float]:
    """Images per second, from the first batch on, when the processes are up; the share of CPU time outside of them."""
    before = [cpu(RUSAGE_SELF), cpu(RUSAGE_CHILDREN)]
    batches = iter(DataLoader(Batches(images), batch_size=None, num_workers=workers))
    next(batches)
    start = time.perf_counter()
    count = sum(len(batch) for batch in batches)
    found = count / (time.perf_counter() - start)
    del batches  # ends the processes, and only then is their time known
    outside, inside = cpu(RUSAGE_SELF) - before[0], cpu(RUSAGE_CHILDREN) - before[1]
    return found, outside / (outside + inside)


def cpu(who: int) -> float:
    used = getrusage(who)
    return used.ru_utime + used.ru_stime


def measure(paths: list[str]) -> list[dict[str, Any]]:
    images = Images(paths, size=SIZE, augment=Augment())
    plain = Images(paths, size=SIZE)
    start = time.perf_counter()
    verify(paths)
    checked = len(paths) / (time.perf_counter() - start)
    results: list[dict[str, Any]] = [{"what": f"verify, {os.cpu_count()} threads", "images_per_second": checked}]
    for what, kind in (("read, resized", plain), ("read, resized, augmented", images)):
        for workers in (1, 2):
            processes = f"{workers} worker process{'es' if workers > 1 else ''}"
            found, outside = speed(kind, workers)
            results.append({"what": f"{what}, {processes}", "images_per_second": found, "outside_of_workers": outside})
    return results


def main() -> None:
    torch.set_num_threads(1)
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("RARETAG_DATA", HERE.parents[1] / "shared" / "data")
    folder = Path(given) / "VOCdevkit" / "VOC2012" / "JPEGImages"
    paths = [str(path) for path in sorted(folder.glob("*.jpg"))[:IMAGES]]
    if len(paths) < IMAGES:
        raise SystemExit(f"{folder} holds {len(paths)} images; expected {IMAGES} or more of VOC 2012")
    results = measure(paths)
    for result in results:
        outside = f"{result['outside_of_workers']:>8.1%} of CPU time outside" if "outside_of_workers" in result else ""
        print(f"{result['what']:<50}{result['images_per_second']:>10,.0f} images/s{outside}")
    versions = {"python": platform.python_version(), "pillow": PIL.__version__, "torch": torch.__version__}
    about = {"machine": platform.machine(), "cores": os.cpu_count(), "images": len(paths), "size": SIZE}
    path = HERE / "results" / "images.json"
    path.write_text(json.dumps({**about, "versions": versions, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
