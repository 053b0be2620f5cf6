"""`raretag labels apply`: answered suggestions back into the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raretag.cli.screen import screen
from raretag.cli.train import called, check_names
from raretag.core.errors import UserError
from raretag.engine.config import Config, compose

FORMS = ("table", "corrections")


def apply_answers(
    answers: list[Path],
    data: str,
    out: Path,
    changes: list[str],
    form: str | None,
    log: Path | None,
    *,
    overwrite: bool,
) -> None:
    run = Path(data)
    config = compose(run / "config.yaml", changes) if (run / "config.yaml").is_file() else compose(None, changes, data)
    check_names(config)
    is_table = config.data.name == "table"
    form = form or ("table" if is_table else "corrections")
    if form not in FORMS:
        raise UserError(f"--as is '{form}'; expected {' or '.join(FORMS)}")
    if form == "table" and not is_table:
        raise UserError(f"'{called(config)}' is not a table that can be written; leave out --as, or say corrections")
    log = log or out.with_name(out.name + ".log.csv")
    for path in (out, log):
        if path.exists() and not overwrite:
            raise UserError(f"'{path}' exists; replace it with --overwrite, or name another")
        if not path.absolute().parent.is_dir():
            raise UserError(f"the folder of '{path}' does not exist")

    from raretag.suggest import answers as reading  # torch is loaded here
    from raretag.suggest.settle import write_log

    given = [answer for path in answers for answer in reading.read(path)]
    settled = into_table(config, given, out) if form == "table" else into_corrections(config, given, out)
    write_log(log, settled)
    console = screen()
    console.print(
        f"{settled.count('changed')} labels changed, {settled.count('already so')} were so already, "
        f"{len(settled.conflicts)} conflicts, {settled.unanswered} not answered"
    )
    for line in settled.conflicts[:20]:
        console.print(f"  conflict: item {line.item}, '{line.label}': {line.reason}; left as it is")
    if len(settled.conflicts) > 20:
        console.print(f"  and {len(settled.conflicts) - 20} more, see {log}")
    console.print(f"written: {out}, log: {log}")
    if form == "corrections":
        console.print(f"train with: --set data.corrections={out}")


def into_table(config: Config, given: list[Any], out: Path) -> Any:
    from raretag.data.table import Table
    from raretag.data.table.rewrite import Writer
    from raretag.engine.sources import find_source
    from raretag.labels.corrections import Places
    from raretag.suggest.settle import settle

    if config.data.corrections is not None:
        raise UserError("the run has data.corrections beside its table; go on with --as corrections")
    table = find_source(config.data, config.seed)
    assert isinstance(table, Table)
    store, absent = table.current()
    source, roles = table.opened()
    if out.suffix.lower() != source.path.suffix.lower():
        raise UserError(f"'{out.name}' must end in '{source.path.suffix}', like the table that it is made from")
    settled = settle(given, [Places(store)], Writer(roles, absent, roles.negatives).can_write)
    table.rewrite(settled.changes, out)
    if roles.split is None:
        screen(error=True).print(
            "remark: the table has no split column, and parts are dealt by labels: with other labels other items are "
            "tested on; --as corrections keeps the parts"
        )
    return settled


def into_corrections(config: Config, given: list[Any], out: Path) -> Any:
    from raretag.engine.sources import load
    from raretag.labels import corrections
    from raretag.labels.corrections import Correction, Places
    from raretag.suggest.settle import settle

    data = load(config.data, config.seed)  # with the corrections so far, which the new file goes on from
    parts = [data.train, *(part for part in (data.validation, data.test) if part.labels.given_ids is not None)]
    settled = settle(given, [Places(part.labels) for part in parts])
    before = corrections.read(Path(config.data.corrections).expanduser()) if config.data.corrections else []
    kept = {(one.item, one.label): one for one in before}
    for (item, label), state in settled.changes.items():
        first = kept[item, label].was if (item, label) in kept else settled.before(item, label)
        kept[item, label] = Correction(item, label, state, first)  # type: ignore[arg-type]
    corrections.write(out, kept.values())
    return settled
