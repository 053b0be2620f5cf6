"""One thread for each test process, also for the programs that tests start: they share the cores."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
