"""A headless Chromium, where playwright and a browser are installed; a test that needs one is skipped elsewhere."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

import pytest

PATIENCE = 90_000  # milliseconds: the machine may be busy
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium():
    library = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    found = os.environ.get("RARETAG_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no chromium on this machine")
    with library.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(OPTIONS), timeout=PATIENCE)
        yield started
        started.close()
