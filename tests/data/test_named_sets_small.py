"""Options of the research data sets, on tiny copies in their published layouts."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from raretag.core import registry
from raretag.core.errors import UserError


def source(name, root, **options):
    return registry.build("data", name, options, seed=0, root=root)


def positives(store):
    return store.statistics(cooccurrence=False).positives


def write(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def photograph(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30), "green").save(path)


def cifar_batch(classes, each, label_bytes):
    records = [bytes([label] * label_bytes) + bytes([label]) * 3072 for _ in range(each) for label in range(classes)]
    return b"".join(records)


def test_cifar10_of_the_binary_version_gets_a_long_tail(tmp_path):
    batches = {f"cifar-10-batches-bin/data_batch_{n}.bin": cifar_batch(10, 20, 1) for n in range(1, 6)}
    write(tmp_path, batches | {"cifar-10-batches-bin/test_batch.bin": cifar_batch(10, 3, 1)})
    data = source("cifar10_lt", tmp_path, ratio=10.0, validation_items=40).load()
    assert positives(data.train.labels).tolist() == [100, 77, 59, 46, 35, 27, 21, 16, 12, 10]
    assert positives(data.validation.labels).tolist() == [4] * 10
    assert len(data.test) == 30
    shared = {data.train.labels.ids[row] for row in range(len(data.train))} & set(data.validation.labels.ids)
    assert len(shared) == 4  # airplanes, of which none are left over
    still, moved = (data.train.inputs.batch(torch.arange(5), epoch) for epoch in (None, 0))
    assert still.shape == moved.shape == (5, 3, 32, 32)
    assert torch.equal(moved[2:3], data.train.inputs.batch(torch.tensor([2]), 0))
    assert not torch.equal(still, moved)


def test_cifar100_uses_the_fine_label(tmp_path):
    names = "\n".join(f"class{n}" for n in range(100))
    folder = "cifar-100-binary"
    files = {f"{folder}/train.bin": cifar_batch(100, 5, 2), f"{folder}/test.bin": cifar_batch(100, 1, 2)}
    write(tmp_path, files | {f"{folder}/fine_label_names.txt": names})
    data = source("cifar100_lt", tmp_path, ratio=5.0, validation_items=100).load()
    assert positives(data.train.labels)[[0, 99]].tolist() == [5, 1]
    assert data.test.labels.names[99] == "class99"


@pytest.mark.parametrize(
    ("name", "folder"), [("cifar10_lt", "cifar-10-batches-py"), ("cifar100_lt", "cifar-100-python")]
)
def test_pickles_are_refused_with_the_way_out(name, folder, tmp_path):
    write(tmp_path, {f"{folder}/data_batch_1": b"\x80\x04N."})
    with pytest.raises(UserError, match=r"pickle.*binary"):
        source(name, tmp_path).load()


def coco_file(images, labelled):
    return json.dumps(
        {
            "images": [{"id": number, "file_name": f"{number:012d}.jpg"} for number in images],
            "categories": [{"id": 5, "name": "b"}, {"id": 2, "name": "a"}],
            "annotations": [{"image_id": i, "category_id": c, "bbox": [0, 0, 3, 3], "area": 9} for i, c in labelled],
        }
    )


def test_coco_2017_from_its_own_files(tmp_path):
    pairs = [(number, 2 + 3 * (number % 2)) for number in range(1, 21)]
    train, val = coco_file(range(1, 22), pairs), coco_file(range(30, 33), [(30, 5), (30, 2)])
    annotations = "coco/annotations/instances_{}2017.json"
    write(tmp_path, {annotations.format("train"): train, annotations.format("val"): val})
    found = source("coco", tmp_path, year=2017, validation=0.0).splits()
    assert (len(found.train), found.train.names, positives(found.train).tolist()) == (21, ("a", "b"), [10, 10])
    assert found.test.lists() == [[0, 1], [], []]
    for number in range(1, 22):
        photograph(tmp_path / "coco" / "train2017" / f"{number:012d}.jpg")
    for number in range(30, 33):  # the same images under the names of 2014
        photograph(tmp_path / "coco" / "val2014" / f"COCO_val2014_{number:012d}.jpg")
    data = source("coco", tmp_path, year=2017, size=16).load()
    assert data.test.inputs.batch(torch.arange(3)).shape == (3, 3, 16, 16)


def test_cub_not_visible_is_negative_or_unknown(tmp_path):
    numbers = range(1, 13)
    files = {
        "CUB_200_2011/images.txt": "".join(f"{n} 001.Bird/{n}.jpg\n" for n in numbers),
        "CUB_200_2011/train_test_split.txt": "".join(f"{n} {int(n < 11)}\n" for n in numbers),
        "attributes.txt": "1 has_beak::long\n2 has_wing::blue\n",
        "CUB_200_2011/attributes/image_attribute_labels.txt": "".join(
            f"{n} 1 1 4 2.5\n{n} 2 0 {1 if n % 2 else 3} 2.5\n" for n in numbers
        ),
    }
    write(tmp_path, files)
    plain = source("cub", tmp_path, validation=0.0).splits()
    assert (len(plain.train), len(plain.test), plain.train.observed_share) == (10, 2, 1.0)
    careful = source("cub", tmp_path, validation=0.0, not_visible="unknown").splits()
    assert careful.train.observed_share == 0.75
    assert positives(careful.train).tolist() == [10, 0]
    with pytest.raises(UserError, match=r"12 of 12|10 of 10"):
        source("cub", tmp_path, validation=0.0).load()


def test_open_images_takes_some_classes_only(tmp_path):
    header = "ImageID,Source,LabelName,Confidence\n"
    lines = [f"{n:016x},verification,/m/{letter},{n % 2}\n" for n in range(4) for letter in "abc"]
    files = {
        f"open-images/{part}-annotations-human-imagelabels.csv": header + "".join(lines)
        for part in ("train", "validation", "test")
    }
    files |= {
        "open-images/class-descriptions.csv": "/m/a,Cat\n/m/b,Dog\n/m/c,Cow\n",
        "open-images/some.txt": "/m/c\n/m/a\n",
    }
    write(tmp_path, files)
    assert source("open_images", tmp_path).labels()["train"].labels == 3
    some = source("open_images", tmp_path, classes="some.txt")
    assert some.labels()["train"].names == ("Cow", "Cat")
    with pytest.raises(UserError, match="leads out"):
        source("open_images", tmp_path, classes="../some.txt").labels()
    for number in range(4):
        for part in ("train", "validation", "test"):
            photograph(tmp_path / "open-images" / part / f"{number:016x}.jpg")
    data = source("open_images", tmp_path, classes="some.txt", size=8).load()
    assert data.train.inputs.batch(torch.arange(4)).shape == (4, 3, 8, 8)


def test_svmlight_and_arff_files_of_a_user_are_split(tmp_path):
    rows = "".join(f"{n % 3},{3 + n % 2} {n % 5}:1 7:{n}\n" for n in range(60))
    made = registry.build("data", "svmlight", {"train": str(write(tmp_path, {"x.svm": rows}) / "x.svm")}, seed=0)
    data = made.load()
    assert (len(data.train) + len(data.validation), len(data.test)) == (48, 12)
    row = int(data.test.labels.ids[5].split("/")[1])
    assert data.test.inputs.batch(torch.tensor([5]))[0, 7] == row
    assert data.test.labels.lists()[5] == [row % 3, 3 + row % 2]
    arff = "@relation 'a: -C 2'\n@attribute l {0,1}\n@attribute m {0,1}\n@attribute x numeric\n@data\n"
    arff += "".join(f"{n % 2},{'?' if n % 3 == 0 else 1},{n}\n" for n in range(30))
    made = registry.build("data", "arff", {"train": str(write(tmp_path, {"x.arff": arff}) / "x.arff")}, seed=0)
    data = made.load()
    row = int(data.train.inputs.batch(torch.tensor([0]))[0, 0])
    expected = [row % 2, np.nan if row % 3 == 0 else 1]
    np.testing.assert_array_equal(data.train.labels.dense()[0], expected)
