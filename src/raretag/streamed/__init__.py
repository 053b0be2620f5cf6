"""Many labels: a linear head and its objective without a B x C matrix of logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.streamed.head import StreamedHead as StreamedHead
    from raretag.streamed.row_adagrad import RowAdagrad as RowAdagrad
    from raretag.streamed.targets import ListedTargets as ListedTargets
    from raretag.streamed.targets import listed_targets as listed_targets

__getattr__, __dir__ = lazy.exports(
    __name__,
    modules={
        "raretag.streamed.head": ["StreamedHead"],
        "raretag.streamed.row_adagrad": ["RowAdagrad"],
        "raretag.streamed.targets": ["ListedTargets", "listed_targets"],
    },
)
__all__ = __dir__()
