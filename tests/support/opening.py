"""Open a file the way a command would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def features(path: Path) -> Any:
    from raretag.data.inputs.feature_files import read_features
    from raretag.data.inputs.features import Features

    return Features(read_features(path))


def svmlight(path: Path) -> Any:
    from raretag.data.sets.svmlight import Svmlight

    return Svmlight(train=str(path)).load()


def arff(path: Path) -> Any:
    from raretag.data.sets.arff import Arff

    return Arff(train=str(path)).load()


def xml(path: Path) -> Any:
    from raretag.data.sets.arff import label_names

    return label_names(path)


def table(path: Path) -> Any:
    from raretag.data.table import Table

    return Table(file=str(path)).load()


def config(path: Path) -> Any:
    from raretag.config.settings import compose

    return compose(path, [])


def source(path: Path) -> Any:
    from raretag.data.sources import load

    return load(config(path).data, 0)


OPENING: dict[str, Callable[[Path], Any]] = {
    "features": features,
    "svmlight": svmlight,
    "arff": arff,
    "xml": xml,
    "table": table,
    "config": config,
    "source": source,
}
