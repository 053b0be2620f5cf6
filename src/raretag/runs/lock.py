"""One writer per run folder: `writer.lock` says who, where and since when.

The system's own lock on that file (flock) ends with the process that holds it, so on one machine nothing can be left
locked by a crash, and two cannot hold it. What the file says is for people, and for other machines that share the
folder through a file system without such locks: its holder touches it every few seconds, and a lock of another machine
that nobody has touched for a minute is taken over.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from raretag.core.errors import UnwritableError, UserError

try:
    import fcntl
except ImportError:  # Windows: what the file says must do
    fcntl = None  # type: ignore[assignment]

FILE = "writer.lock"
TOUCH, STALE = 10.0, 60.0  # seconds
_UNKNOWN = dict.fromkeys(("pid", "owner", "host", "since"), "?")
PAUSE = 1.0  # between two looks at a lock of another machine


@contextmanager
def writing(folder: Path, message: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is not there; another writer is an error of one line."""
    made = not folder.exists()
    try:
        path = folder / FILE
        held = _acquired(path, message)
    except OSError as error:
        if isinstance(error, UserError):
            raise
        raise UnwritableError(f"the run folder '{folder}' cannot be written: {error.strerror or error}") from None
    _remove_left_over(folder)
    ended = threading.Event()
    threading.Thread(target=_touch, args=(path, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        with suppress(OSError):
            path.unlink()
        os.close(held)
        if made:
            with suppress(OSError):
                folder.rmdir()  # if nothing came of it


def _acquired(path: Path, message: Callable[[str], None]) -> int:
    waited = False
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            held = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # another writer made the folder, ended and removed it again
            continue
        try:
            taken = _locked(held) and _is_still(held, path)
            before = _read(path)
            if not taken and (fcntl is not None and _is_still(held, path)):
                raise UserError(
                    f"'{path.parent}' is being written{_by(before)}; wait until it ends, or name another --out"
                )
            if taken and not _is_elsewhere(before, path):
                if before:
                    message(f"{path.parent}: took over the lock{_by(before)}, which ended without releasing it")
                _write(held)
                return held
            if taken and not waited:
                message(f"{path.parent} is being written{_by(before)}; waiting {STALE:.0f} s for a sign of life")
                waited = True
        except BaseException:
            os.close(held)
            raise
        os.close(held)  # of a file that is gone, or of another machine's
        if taken:
            _wait_for_sign(path, before)


def _wait_for_sign(path: Path, before: dict[str, Any]) -> None:
    """Until the lock of another machine is gone or stale; an error as soon as its holder shows that it lives."""
    with suppress(FileNotFoundError):
        touched = path.stat().st_mtime
        while time.time() - touched < STALE:
            time.sleep(PAUSE)
            if path.stat().st_mtime != touched:
                raise UserError(
                    f"'{path.parent}' is being written{_by(before)}; wait until it ends, or name another --out"
                )


def _locked(held: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: what the file says must do
    return True


def _is_still(held: int, path: Path) -> bool:
    """Whether the file has not been removed by its former holder in the meantime."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(held), path.stat())
    return False


def _is_elsewhere(before: dict[str, Any], path: Path) -> bool:
    """Whether the holder may live: on another machine, where no lock of this one is seen, with a sign of late."""
    if not before:
        return False
    with suppress(OSError):
        if before.get("host") == socket.gethostname():
            return fcntl is None and _is_alive(before.get("pid"))
        return time.time() - path.stat().st_mtime < STALE
    return False


def _is_alive(process: Any) -> bool:
    try:
        os.kill(int(process), 0)
    except (OSError, TypeError, ValueError):
        return False
    return True


def _write(held: int) -> None:
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    try:
        owner = getpass.getuser()
    except (KeyError, OSError):  # a container without names
        owner = str(os.getuid())
    content = {"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "since": now}
    os.ftruncate(held, 0)
    os.pwrite(held, (json.dumps(content) + "\n").encode(), 0)
    os.fsync(held)


def _read(path: Path) -> dict[str, Any]:
    """Empty where nobody holds it, or a holder has not written yet."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _by(before: dict[str, Any]) -> str:
    if not before:
        return " by another process"
    return (
        f" by process {before.get('pid')} of {before.get('owner')} on {before.get('host')} since {before.get('since')}"
    )


def _touch(path: Path, ended: threading.Event) -> None:
    while not ended.wait(TOUCH):
        with suppress(OSError):
            os.utime(path)


def _remove_left_over(folder: Path) -> None:
    """New files of writers that were killed: nobody else writes here now."""
    for one in folder.glob("*.new"):
        with suppress(OSError):
            one.unlink()
