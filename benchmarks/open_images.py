"""Memory and time of reading human-verified labels in the format of Open Images, on a generated file.

python benchmarks/open_images.py            # 20 million lines
python benchmarks/open_images.py 2000000
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from raretag.data.sets.open_images import COLUMNS, read_verified

LABELS, LINES_AN_IMAGE = 20_000, 10


def write(path: Path, lines: int) -> None:
    chance = random.Random(0)
    with path.open("w") as file:
        file.write(",".join(COLUMNS) + "\n")
        for image in range(lines // LINES_AN_IMAGE):
            start = chance.randrange(LABELS)
            name = f"{image * 2654435761 % 2**64:016x}"
            block = (
                f"{name},verification,/m/{(start + 37 * k) % LABELS:05d},{k % 3 % 2}\n" for k in range(LINES_AN_IMAGE)
            )
            file.writelines(block)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(lines: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        write(path, lines)
        names = [f"label {number}" for number in range(LABELS)]
        column = {f"/m/{number:05d}": number for number in range(LABELS)}
        before, start = peak(), time.perf_counter()
        store = read_verified(path, column, names)
        seconds = time.perf_counter() - start
        print(f"{lines:,} lines, {path.stat().st_size / 2**20:,.0f} MB on disk: {store}")
        print(f"{seconds:.1f} s, {lines / seconds / 1e6:.2f} million lines a second")
        print(
            f"peak memory +{peak() - before:,.0f} MB ({(peak() - before) * 2**20 / lines:.0f} bytes a line);", end=" "
        )
        print(f"the store keeps {store.bytes / 2**20:,.0f} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000)
