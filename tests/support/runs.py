"""Runs in tests: quiet unless a test listens, and the record as the file holds it."""

from __future__ import annotations

from raretag.core.listener import Listener
from raretag.engine import run as engine


class Calls(Listener):
    """Passes messages and progress on to functions, such as the `append` of a list."""

    def __init__(self, message=None, progress=None):
        self.on_message, self.on_progress = message, progress

    def message(self, line):
        if self.on_message:
            self.on_message(line)

    def progress(self, share):
        if self.on_progress:
            self.on_progress(share)


def run(config, folder, *, message=None, progress=None, **more):
    """The record of a run, as plain dictionaries."""
    return engine.run(config, folder, listener=Calls(message, progress), **more).record.to_json()
