"""How feature vectors are brought to one scale before the first layer (`data.prepare`).

Each module stands before a backbone and learns its numbers from the training items alone. They are buffers of the
model, so what predicts later prepares new items as training did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.models.prepare.counts import Counts as Counts
    from raretag.models.prepare.dense import Dense as Dense
    from raretag.models.prepare.dense import Standardised as Standardised
    from raretag.models.prepare.rows import Rows as Rows

REGISTRY = {  # the name on the command line, and where its class is
    "counts": "raretag.models.prepare.counts:Counts",
    "dense": "raretag.models.prepare.dense:Dense",
    "rows": "raretag.models.prepare.rows:Rows",
    "standardised": "raretag.models.prepare.dense:Standardised",
}
__getattr__, __dir__ = lazy.exports(__name__, {target.partition(":")[2]: target for target in REGISTRY.values()})
