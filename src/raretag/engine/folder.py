"""What may happen to a run folder that is already there. Imports no torch: asked before anything is loaded."""

from __future__ import annotations

from pathlib import Path

from raretag.core.errors import UserError


def refuse_existing(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Nothing is replaced unless the user says so, and then only a run."""
    if not folder.exists() or resume:
        return
    if not folder.is_dir():
        raise UserError(f"'{folder}' is a file; expected the name of a folder for the run")
    if not overwrite:
        raise UserError(
            f"the run folder '{folder}' exists; continue it with --resume, replace it with --overwrite, "
            "or name another with --out"
        )
    if any(folder.iterdir()) and not (folder / "config.yaml").exists():
        raise UserError(f"'{folder}' is not a run folder (no config.yaml in it), so --overwrite leaves it alone")
    listed = folder / "suggestions"
    if listed.is_dir() and any(listed.iterdir()):
        raise UserError(f"'{listed}' may hold answers, so --overwrite leaves it alone: move it, or name another --out")


def is_finished(folder: Path) -> bool:
    """Whether the last file of a run is written, so that there is nothing to resume."""
    return all((folder / name).is_file() for name in ("record.json", "card.json", "evidence.safetensors"))
