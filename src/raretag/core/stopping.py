"""SIGTERM and Ctrl-C: a cluster takes its machine back, or a person has seen enough.

Work that can be saved between two steps says so (`at_steps`) and asks after each one (`asked`); everything else is left
at once, by an exception, as files are complete or not there at all. What does not end within a few seconds (a long
evaluation, say) is ended, and a second signal ends the process at once. Exit codes are those of shells: 143 and 130.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

PATIENCE = 4.0  # seconds for the rest of a step and for saving it
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """A signal asked this process to end. No exception of Python's: libraries make exit codes of those."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class _State:
    number: int | None = None  # the signal that came
    steps = 0  # pieces of work that ask by themselves
    last_words = ""


def code_of(stopped: BaseException) -> int:
    return stopped.code if isinstance(stopped, Stopped) else 128 + signal.SIGINT


@contextmanager
def watching() -> Iterator[None]:
    """Around a command. Programs that use the library keep their own ways with signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def handle(number: int, frame: Any) -> None:
        if os.getpid() != owner:  # a child that loads data: it ends as children do
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif _State.number is not None:
            end(128 + number)
        else:
            _State.number = number
            timer = threading.Timer(PATIENCE, end, [128 + number, _State.last_words])
            timer.daemon = True
            timer.start()
            if not _State.steps:
                raise Stopped(number)

    before = {one: signal.signal(one, handle) for one in SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        if _State.number is None:
            _State.last_words = ""


@contextmanager
def at_steps() -> Iterator[None]:
    """While this lasts, a signal waits until the work asks for it."""
    _State.steps += 1
    try:
        yield
    finally:
        _State.steps -= 1


def asked() -> bool:
    """Whether the process shall end."""
    return _State.number is not None


def stop() -> NoReturn:
    """Now that everything is saved."""
    raise Stopped(_State.number or signal.SIGINT)


def last_words(line: str) -> None:
    """What to say if time runs out before the work has ended by itself."""
    _State.last_words = line


def end(code: int, line: str = "") -> NoReturn:
    """At once: no destructors, no threads that wait for each other."""
    if line:
        print(line, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
