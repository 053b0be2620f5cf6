"""Files that an attacker could send, made by code: what each does, and the reader that has to refuse it.

`HOSTILE` is the corpus of past finds: every file that once broke a reader stays here. `benchmarks/hostile.py` opens
each in a process of its own and measures what happens.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

SCALE = int(os.environ.get("HOSTILE_SCALE", "1"))  # 10 for the sizes that the documentation names


@dataclass(frozen=True)
class Hostile:
    """A file of this name, and the word for what opens it (see `support/opening.py`)."""

    file: str
    opens: str
    make: Callable[[Path], None]
    refused: str  # what the message says, as a regular expression


def npz(path: Path, **arrays: Any) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, np.asarray(array))
            archive.writestr(f"{name}.npy", content.getvalue())


def csr(path: Path, **changed: Any) -> None:
    """Three rows of four features, with some of its arrays replaced."""
    good = {
        "indices": np.array([0, 3, 1], np.int32),
        "indptr": np.array([0, 1, 2, 3], np.int32),
        "format": np.array(b"csr"),
        "shape": np.array([3, 4]),
        "data": np.ones(3, np.float32),
    }
    npz(path, **{**good, **changed})


def wrong(**changed: Any) -> Callable[[Path], None]:
    return lambda path: csr(path, **changed)


def written(content: bytes | str) -> Callable[[Path], None]:
    data = content if isinstance(content, bytes) else content.encode()

    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def zeros_bomb(path: Path) -> None:
    """A small archive whose one array unpacks to 0.3 GB of zeros, 3 GB at full scale."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (SCALE * 300 << 10, 256)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("data.npy", "w", force_zip64=True) as file:
            file.write(header.getvalue())
            block = bytes(4 << 20)
            for _ in range(SCALE * (300 << 20) // len(block)):
                file.write(block)
        for name, array in {
            "indices": np.zeros(1, np.int32),
            "indptr": np.array([0, 1]),
            "format": np.array(b"csr"),
            "shape": np.array([1, 1]),
        }.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy", content.getvalue())


def lying_header(path: Path) -> None:
    """An array of two numbers whose header promises 10^12."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6)})
    path.write_bytes(content.getvalue() + bytes(8))


def holes(path: Path) -> None:
    """A tensor of 1 TB that takes no room on the disk."""
    size = 1 << 40
    header = json.dumps({"features": {"dtype": "F32", "shape": [1 << 20, 1 << 18], "data_offsets": [0, size]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)


def unknown_labels(path: Path) -> None:
    """ARFF: 10,000 labels, 10,000 empty rows, one unknown label; ten times as many at full scale."""
    labels = 10_000 * SCALE
    head = f"@relation 'r: -C {labels}'\n" + "".join(f"@attribute l{n} {{0,1}}\n" for n in range(labels))
    path.write_text(head + "@attribute x numeric\n@data\n{0 ?}\n" + "{}\n" * labels)


def many_rows(path: Path) -> None:
    """Parquet: one label, millions of times, in a few kilobytes."""
    word = pa.DictionaryArray.from_arrays(np.zeros(1_000_000, np.int32), ["a"])
    chunk = pa.table({"text": word, "tags": word})
    with pyarrow.parquet.ParquetWriter(path, chunk.schema, compression="zstd") as writer:
        for _ in range(2 * SCALE**2):
            writer.write_table(chunk, row_group_size=1_000_000)


def long_cells(path: Path) -> None:
    """Parquet: one text of 8 MB that stands in 10,000 rows."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), pa.array(["x" * (8 << 20)]))
    table = pa.table({"text": texts, "tags": ["a"] * 10_000})
    pyarrow.parquet.write_table(table, path, compression="zstd", dictionary_pagesize_limit=1 << 30)


def not_text(path: Path) -> None:
    """Parquet: a column of texts with a byte that is not UTF-8."""
    ends, content = pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"ok\xff\xfe")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, ends, content])
    pyarrow.parquet.write_table(pa.table({"text": texts, "tags": ["a", "b"]}), path)


def wide(path: Path) -> None:
    """A CSV with 10^6 columns, in 14 MB."""
    numbers = ",".join(["0"] * 1_000_000)
    path.write_text(",".join(f"c{n}" for n in range(1_000_000)) + "\n" + f"{numbers}\n" * 3)


def same_names(path: Path) -> None:
    """A CSV with 100,000 columns of which the last two have one name."""
    path.write_text(",".join([*(f"c{n}" for n in range(99_998)), "x", "x"]) + "\n" + ",".join(["0"] * 100_000) + "\n")


def many_keys(path: Path) -> None:
    """JSON Lines: 200 objects of 5,000 keys each, all different."""
    with path.open("w") as file:
        for row in range(200):
            file.write(json.dumps({f"k{row}_{key}": 0 for key in range(5_000)}) + "\n")


def laughs(levels: int = 12, width: int = 10) -> str:
    """YAML that says one thing 10^levels times."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)]
    return "\n".join(lines) + "\n"


XML_BOMB = (
    '<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY b{n} "{f"&b{n - 1};" * 10 if n else "&a;" * 10}">' for n in range(9))
    + ']><labels><label name="&b8;"/></labels>'
)

ARFF = "@relation 'r: -C 1'\n@attribute l {0,1}\n"

HOSTILE: dict[str, Hostile] = {
    "pointers that fall": Hostile("x.npz", "features", wrong(indptr=np.array([0, 3, 1, 3])), "indptr"),
    "pointers beyond the end": Hostile("x.npz", "features", wrong(indptr=np.array([0, 1, 2, 2**30])), "indptr"),
    "negative pointers": Hostile("x.npz", "features", wrong(indptr=np.array([-(2**20), 1, 2, 3])), "indptr"),
    "pointers of another length": Hostile("x.npz", "features", wrong(indptr=np.array([0, 3])), "indptr"),
    "pointers that are fractions": Hostile("x.npz", "features", wrong(indptr=np.array([0, 1.5, 2, 3])), "indptr"),
    "indices beyond the width": Hostile("x.npz", "features", wrong(indices=np.array([0, 10**8, 1])), "indices"),
    "negative indices": Hostile("x.npz", "features", wrong(indices=np.array([0, -(10**8), 1])), "indices"),
    "fewer indices than numbers": Hostile("x.npz", "features", wrong(indices=np.array([0])), "indices"),
    "a shape of 10^12 rows": Hostile(
        "x.npz", "features",
        lambda path: npz(path, row=np.array([0]), col=np.array([0]), data=np.ones(1), shape=np.array([10**12, 2]),
                         format=np.array(b"coo")), "memory",
    ),
    "a shape of 10^12 columns": Hostile("x.npz", "features", wrong(shape=np.array([3, 10**12])), "memory"),
    "a negative shape": Hostile("x.npz", "features", wrong(shape=np.array([3, -4])), "shape"),
    "numbers that are texts": Hostile("x.npz", "features", wrong(data=np.array(["a", "b", "c"])), "data"),
    "objects in an archive": Hostile("x.npz", "features", wrong(format=np.array([{}], object)), "format"),
    "an archive without arrays": Hostile("x.npz", "features", lambda path: npz(path, a=np.ones(2)), "format"),
    "an archive that unpacks 1,000 times": Hostile("x.npz", "features", zeros_bomb, "unpacks"),
    "an array whose header lies": Hostile("x.npy", "features", lying_header, "not a file of features"),
    "an archive called an array": Hostile("x.npy", "features", csr, "not a file of features"),
    "an array of no columns": Hostile("x.npy", "features", lambda path: np.save(path, np.ones((3, 0))), "expected"),
    "a tensor of 1 TB of holes": Hostile("x.safetensors", "features", holes, "memory"),
    "feature 2^31 - 2": Hostile("x.svm", "svmlight", written("0 2147483646:1\n1 0:1\n" * 10), "memory"),
    "feature 2^31": Hostile("x.svm", "svmlight", written("0 2147483648:1\n1 0:1\n" * 10), "whole number"),
    "feature 2^64": Hostile("x.svm", "svmlight", written(f"0 {2**64}:1\n1 0:1\n"), "whole number"),
    "a header of 2^31 features": Hostile("x.svm", "svmlight", written("2 2147483646 3\n0 0:1\n1 0:1\n"), "memory"),
    "more unknown labels than memory": Hostile("x.arff", "arff", unknown_labels, "memory"),
    "blanks before a quote": Hostile(
        "x.arff", "arff", written(ARFF + "@attribute x {" + " " * 30_000 + '"b,c}\n@data\n1,b\n'), "quotes"
    ),
    "blanks in a row": Hostile(
        "x.arff", "arff", written(ARFF + "@attribute x numeric\n@data\n1," + " " * 30_000 + "'1\n"), "quotes"
    ),
    "entities in entities": Hostile("x.xml", "xml", written(XML_BOMB), "document type"),
    "elements in elements": Hostile("x.xml", "xml", written("<a>" * 100_000), "nested"),
    "millions of rows of one label": Hostile("x.parquet", "table", many_rows, "memory"),
    "one text of 8 MB in 10,000 rows": Hostile("x.parquet", "table", long_cells, "memory"),
    "texts that are no texts": Hostile("x.parquet", "table", not_text, "UTF8"),
    "10^6 columns": Hostile("x.csv", "table", wide, "columns"),
    "two names of 100,000": Hostile("x.csv", "table", same_names, "twice"),
    "10^6 keys": Hostile("x.jsonl", "table", many_keys, "columns"),
    "lists in lists": Hostile("x.jsonl", "table", written('{"tags": ' + "[" * 100_000 + "\n"), "not JSON"),
    "YAML in YAML": Hostile("x.yaml", "config", written("data: " + "[" * 20_000 + "]" * 20_000), "nested"),
    "YAML that says one thing 10^11 times": Hostile("x.yaml", "config", written(laughs()), "values"),
    "YAML that holds itself": Hostile("x.yaml", "config", written("data: &a {name: digits, root: *a}"), "itself"),
    "a date that is none": Hostile("x.yaml", "config", written("seed: 2024-13-45"), "not a YAML file"),
    "a number without digits": Hostile("x.yaml", "config", written("seed: !!int ''"), "not a YAML file"),
    "a number of 5,000 digits": Hostile("x.yaml", "config", written(f"seed: {'9' * 5000}"), "not a YAML file"),
    "a program in YAML": Hostile("x.yaml", "config", written("data: !!python/object/apply:os.system [true]"), "YAML"),
    "a seed of 65 bits": Hostile("x.yaml", "config", written(f"seed: {2**64}"), "seed"),
    "a key that is a number": Hostile("x.yaml", "config", written("1: {2: 3}"), "setting"),
    "a program as a data set": Hostile(
        "x.yaml", "source", written("data: {name: 'subprocess:Popen', args: [touch, made]}"), "not a DataSource"
    ),
}  # fmt: skip
