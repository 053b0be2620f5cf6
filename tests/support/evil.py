"""What a hostile file would put into labels and texts."""

from __future__ import annotations

EVIL = "<script>window.stolen = 1</script>"
