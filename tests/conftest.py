"""One thread for each test process, also for the programs that tests start: they share the cores."""

import os

import pytest

os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture
def write(tmp_path):
    """Write a file; gives its path."""

    def written(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return written
