"""Where tests find the repository and the data beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "raretag"
DATA = Path(os.environ.get("RARETAG_DATA", REPOSITORY.parent / "shared" / "data"))  # real data sets, where present
GOLDEN = json.loads((REPOSITORY / "tests" / "golden" / "loss-vectors.json").read_text(encoding="utf-8"))
