"""Every reader of a published format, with a small good file for it."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from PIL import Image
from safetensors.numpy import save
from scipy import sparse

from raretag.config.settings import compose
from raretag.data.files import read_label_list, read_names
from raretag.data.inputs.feature_files import read_archive, read_features
from raretag.data.inputs.features import Features
from raretag.data.sets.arff import label_names, read_arff
from raretag.data.sets.cifar import read_binary, read_sheet, read_sheet_labels
from raretag.data.sets.coco_files import read_instances, read_labelled_ids
from raretag.data.sets.cub import read_attributes, read_numbered, read_training_part
from raretag.data.sets.goemotions import read_texts
from raretag.data.sets.multimnist import read_idx
from raretag.data.sets.open_images import read_descriptions, read_verified
from raretag.data.sets.svmlight import read_rows
from raretag.data.sets.voc import read_objects
from raretag.data.table import Table


def idx_file(array: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + b"".join(struct.pack(">I", size) for size in array.shape)
    return header + array.astype(np.uint8).tobytes()


def png_sheet() -> bytes:
    pixels = np.arange(2 * 1024 * 3, dtype=np.int64).reshape(2, 1024, 3) % 251
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def npz_file(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


COCO = {
    "images": [{"id": 7, "file_name": "b.jpg"}, {"id": 3, "file_name": "a.jpg"}, {"id": 4, "file_name": "c.jpg"}],
    "categories": [{"id": 90, "name": "last"}, {"id": 1, "name": "first"}],
    "annotations": [
        {"image_id": 7, "category_id": 90, "bbox": [0, 0, 5, 5], "area": 25, "segmentation": [[1, 2, 3]], "iscrowd": 0},
        {"image_id": 7, "category_id": 1, "bbox": [0, 0, 5, 0.5], "area": 2.5},  # a side under one pixel
        {"image_id": 3, "category_id": 1, "bbox": [0, 0, 5, 5], "area": 25, "iscrowd": 1},
        {"image_id": 3, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 81},
        {"image_id": 4, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 0},
    ],
}
VOC = b"""<annotation><object><name>dog</name><part><name>head</name></part><difficult>1</difficult></object>
<object><name>cat</name></object></annotation>"""
DENSE = b"""% a comment
@relation 'two labels: -C 2'
@attribute a {0,1}
@attribute 'b\\'s' {no,yes}
@attribute "c, d" numeric
@attribute e {red,'dark green'}
@data

1,yes,-2.5,'dark green'
0,?,1e3,red
"""
SPARSE = b"""@relation r
@ATTRIBUTE x numeric
@attribute l2 {0,1}
@attribute l1 {0,1}
@data
{0 1.5,2 1}
{}
{1 1}
"""
LABELS_XML = b'<labels xmlns="http://x"><label name="l1"><label name="l2"/></label></labels>'
OPEN_IMAGES = b"""ImageID,Source,LabelName,Confidence
00000000000000ff,v,/m/a,1
00000000000000ff,v,/m/b,0
0a00000000000000,v,/m/b,1.0
"""


@dataclass
class Reader:
    read: Callable[[Path], Any]
    good: bytes
    text: bool = True
    ending: str = ".dat"


def sparse_file(form: str) -> bytes:
    buffer = io.BytesIO()
    sparse.save_npz(buffer, sparse.eye_array(6, 4, format=form), compressed=False)
    return buffer.getvalue()


def parquet_file() -> bytes:
    buffer = io.BytesIO()
    texts = pa.array([f"some words of text {row % 5}" for row in range(20)])
    tags = pa.array([["a"], ["b", "a"]] * 10)
    pyarrow.parquet.write_table(pa.table({"text": texts, "tags": tags, "x": range(20)}), buffer)
    return buffer.getvalue()


def npy_file() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ones((3, 2), np.float32))
    return buffer.getvalue()


def read_table(path: Path) -> Any:
    return Table(file=str(path), bad_items="skip", size=4).load()


def features_of(path: Path) -> Any:
    return Features(read_features(path)).batch(torch.arange(1))


ROWS = "".join(f"{row},{'some words ' * 3}{row % 5},{'a' if row % 2 else 'b;a'},{row / 7}\n" for row in range(20))
OBJECTS = "".join(json.dumps({"text": f"words {row % 5}", "tags": ["a"], "x": row}) + "\n" for row in range(20))
CONFIG = (
    b"data: &d {name: digits, largest: 20}\nmethod: focal\ntrain:\n  epochs: 2\n  milestones: [0.5, 0.75]\nseed: 3\n"
)

READERS = {
    "idx": Reader(lambda p: read_idx(p, 3), idx_file(np.arange(12).reshape(3, 2, 2)), text=False),
    "cifar": Reader(lambda p: read_binary(p, 2, 100), (bytes([5, 99]) + bytes(range(256)) * 12) * 2, text=False),
    "cifar sheet": Reader(read_sheet, png_sheet(), text=False),
    "cifar sheet labels": Reader(lambda p: read_sheet_labels(p, 3, 10), b"[3, 0, 9]"),
    "label list": Reader(lambda p: read_label_list(p, 80), b"a.jpg,3 17\nb.jpg, 2.\nc.jpg,\n"),
    "names": Reader(read_names, b"one\ntwo\n\nthree\n"),
    "coco": Reader(read_instances, json.dumps(COCO).encode()),
    "ids": Reader(lambda p: read_labelled_ids(p, 80), b'{"image_ids": ["1", "2"], "labels": [[0, 79], []]}'),
    "voc": Reader(read_objects, VOC),
    "mulan labels": Reader(label_names, LABELS_XML),
    "arff dense": Reader(read_arff, DENSE),
    "arff sparse": Reader(lambda p: read_arff(p, ["l1", "l2"]), SPARSE),
    "svmlight": Reader(read_rows, b"3,17 1:0.5 7:2 # note\n 2:1\n0 1:1\n"),
    "svmlight header": Reader(read_rows, b"2 4 3\n2,0 0:1 3:-1e2\n1:1\n"),
    "cub images": Reader(lambda p: read_numbered(p, "image"), b"1 001.A/a b.jpg\n2 001.A/c.jpg\n"),
    "cub split": Reader(lambda p: read_training_part(p, 2), b"2 1\n1 0\n"),
    "cub attributes": Reader(lambda p: read_attributes(p, 2, 2), b"1 1 0 1 3.5\n1 2 1 4 0 1.2\n2 2 1 3 2\n"),
    "emotions": Reader(lambda p: read_texts(p, 28), b'so, "good"\t3,27\tx1\nno\t0\tx2\n'),
    "open images classes": Reader(read_descriptions, b"/m/a,Cat\n/m/b,Dog, wild\n"),
    "open images": Reader(lambda p: read_verified(p, {"/m/a": 0, "/m/b": 1}, ["Cat", "Dog"]), OPEN_IMAGES),
    "npz": Reader(read_archive, npz_file(X=np.ones((2, 3), np.float16), ids=np.array(["a", "b"])), text=False),
    "sparse csr": Reader(features_of, sparse_file("csr"), text=False, ending=".npz"),
    "sparse csc": Reader(features_of, sparse_file("csc"), text=False, ending=".npz"),
    "sparse coo": Reader(features_of, sparse_file("coo"), text=False, ending=".npz"),
    "array": Reader(features_of, npy_file(), text=False, ending=".npy"),
    "tensor": Reader(features_of, save({"features": np.ones((3, 2), np.float32)}), text=False, ending=".safetensors"),
    "parquet": Reader(read_table, parquet_file(), text=False, ending=".parquet"),
    "csv": Reader(read_table, f"id,text,tags,x\n{ROWS}".encode(), ending=".csv"),
    "json lines": Reader(read_table, OBJECTS.encode(), ending=".jsonl"),
    "configuration": Reader(lambda path: compose(path, []), CONFIG, ending=".yaml"),
}


def put(folder: Path, content: bytes | str) -> Path:
    path = folder / "file.dat"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
