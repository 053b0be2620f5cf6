"""`raretag export`: a trained model for use without raretag."""

from __future__ import annotations

from pathlib import Path


def export_run(run: Path, to: str, out: Path | None, *, preprocess: bool, decide: bool) -> None:
    from raretag.core.errors import UserError
    from raretag.serve.export import ENDINGS, export
    from raretag.serve.model import load

    path = out or run / f"model{ENDINGS[to]}"
    if path.suffix != ENDINGS[to]:
        raise UserError(f"--out {path} with --to {to}; expected a file that ends in {ENDINGS[to]}")
    worst = export(load(run), path, preprocess=preprocess, decide=decide)
    given = "calibrated probabilities and decisions" if decide else "logits"
    print(f"{path}: {given}, for batches of any size; differs from PyTorch by at most {worst:.1e}")
