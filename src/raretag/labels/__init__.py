"""Labels of a whole data set: held, counted, hidden, thinned to a long tail and split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.labels.counts import describe as describe
    from raretag.labels.counts import groups as groups
    from raretag.labels.store import LabelStore as LabelStore

_EXPORTS = {
    "LabelStore": "raretag.labels.store:LabelStore",
    "describe": "raretag.labels.counts:describe",
    "groups": "raretag.labels.counts:groups",
}
__getattr__, __dir__ = lazy.exports(__name__, _EXPORTS)
