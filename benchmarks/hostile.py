"""What becomes of hostile files, each opened in a process of its own: the answer, seconds and memory.

    python benchmarks/hostile.py [--only WORD] [--src FOLDER]

`--src` names the sources to try, for the figures before a repair. A process may take 8 GB and 60 seconds of CPU time.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHILD = """
import sys
from pathlib import Path
from support.hostile import HOSTILE
from support.opening import OPENING
from raretag.core.errors import UserError
try:
    OPENING[sys.argv[1]](Path(sys.argv[2]))
    print("opened")
except UserError as error:
    print("refused:", str(error)[:150])
"""


def limits() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def outcome(opens: str, path: Path, sources: Path) -> str:
    env = {**os.environ, "HOSTILE_SCALE": "10", "PYTHONPATH": f"{sources}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, opens, str(path)]
    child = subprocess.Popen(
        command, env=env, cwd=path.parent, preexec_fn=limits, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, errors = child.communicate()
    if child.returncode < 0:
        return f"killed by {signal.Signals(-child.returncode).name}"
    return out.strip() or f"traceback: {errors.strip().splitlines()[-1][:120]}"


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    os.environ["HOSTILE_SCALE"] = "10"
    from support.hostile import HOSTILE

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--src", type=Path, default=ROOT / "src")
    given = parser.parse_args()
    for name, one in HOSTILE.items():
        if given.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / one.file
            one.make(path)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            found = outcome(one.opens, path, given.src)
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
            print(f"{name:38s} {path.stat().st_size / 1e6:8.1f} MB {seconds:6.1f} s  {found}", flush=True)


if __name__ == "__main__":
    main()
