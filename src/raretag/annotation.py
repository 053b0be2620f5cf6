"""raretag and the tools in which people annotate: Label Studio, FiftyOne, Argilla (docs/integrations.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.integrations.annotation import from_argilla as from_argilla
    from raretag.integrations.annotation import from_fiftyone as from_fiftyone
    from raretag.integrations.annotation import from_label_studio as from_label_studio
    from raretag.integrations.annotation import label_studio_page as label_studio_page
    from raretag.integrations.annotation import to_argilla as to_argilla
    from raretag.integrations.annotation import to_fiftyone as to_fiftyone
    from raretag.integrations.annotation import to_label_studio as to_label_studio

_NAMES = (
    *("from_argilla", "from_fiftyone", "from_label_studio"),
    *("label_studio_page", "to_argilla", "to_fiftyone", "to_label_studio"),
)
__getattr__, __dir__ = lazy.exports(__name__, modules={"raretag.integrations.annotation": _NAMES})
__all__ = __dir__()
