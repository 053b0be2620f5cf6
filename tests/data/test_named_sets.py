"""The research data sets by name: their published counts where the data is present, their options on tiny copies."""

from __future__ import annotations

import functools
import inspect
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from raretag.config.settings import Data
from raretag.core import registry
from raretag.core.errors import UserError
from raretag.data.sources import counted_on, group_counts, load
from raretag.data.table.source import Table
from raretag.labels.counts import groups
from raretag.labels.longtail import exponential_counts
from support.paths import REPOSITORY

DATA = Path(os.environ.get("RARETAG_DATA", REPOSITORY.parent / "shared" / "data"))
GOLDEN = json.loads((REPOSITORY / "tests" / "golden" / "loss-vectors.json").read_text())["other"]
OWN = {"digits", "table", "python"}  # not read from a folder of named sets
NAMED = [name for name in registry.names("data") if name not in OWN]


def needs(*names):
    absent = [name for name in names if not (DATA / name).exists()]
    return pytest.mark.skipif(bool(absent), reason=f"{absent} not found in {DATA}; set RARETAG_DATA")


def source(name, root=DATA, seed=0, **options):
    return registry.build("data", name, options, seed=seed, root=root)


@functools.cache
def splits(name, **options):
    return source(name, **options).splits()


def positives(store):
    return store.statistics(cooccurrence=False).positives


@pytest.mark.parametrize("name", NAMED)
def test_says_in_plain_text_what_it_is_where_to_get_it_and_which_files_it_needs(name):
    entry = next(entry for entry in registry.entries("data") if entry.name == name)
    assert entry.source
    assert "\n" not in entry.summary
    assert entry.files or name in ("arff", "svmlight")  # these read files of your own
    assert all(isinstance(file, str) and not file.startswith("/") for file in entry.files)


@pytest.mark.parametrize("name", NAMED)
def test_takes_named_options_and_gives_labels_without_images(name):
    maker = registry.find("data", name)
    options = registry.parameters(maker).values()
    assert all(option.kind is inspect.Parameter.KEYWORD_ONLY for option in options)
    assert callable(maker.load)
    assert (
        callable(maker.labels) if not issubclass(maker, Table) else maker.name == "arxiv"
    )  # a table reads all at once


@pytest.mark.parametrize("name", sorted(set(NAMED) - {"arff", "svmlight"}))
def test_absent_data_is_answered_with_the_file_the_folder_and_where_to_get_it(name, tmp_path):
    with pytest.raises(UserError, match=rf"{name} needs '.*'.* in the folder '.*{tmp_path.name}'.*https?://"):
        source(name, root=tmp_path).labels()


def test_without_a_folder_the_variable_is_named(monkeypatch):
    monkeypatch.delenv("RARETAG_DATA", raising=False)
    with pytest.raises(UserError, match="RARETAG_DATA"):
        source("yeast", root=None).labels()
    with pytest.raises(UserError, match="does not exist"):
        source("yeast", root=Path("nowhere")).labels()


@needs("mnist")
def test_multimnist_has_the_counts_of_the_supplement():
    data = source("multimnist").load()
    assert len(data.train) == 14694
    assert len(data.test) == 90000
    test = [17840, 19080, 18256, 18080, 17856, 17136, 17664, 18224, 17792, 18072]
    assert positives(data.test.labels).tolist() == test
    train = positives(data.train.labels)
    paper = torch.tensor([9485, 6167, 3967, 2476, 1508, 875, 538, 331, 164, 105])
    assert ((train - paper).abs() < 5 * paper.sqrt()).all()  # partners are drawn at random, as the paper's were
    assert 60 < train[0] / train[9] < 120  # 90.33 in the paper
    first = GOLDEN["multimnist"]["train_candidates"]["img_max=5923(class0)"]["counts"]
    pairs = data.train.inputs.first  # rows of MNIST: each listed digit is the first of one image
    assert len(pairs.unique()) == sum(first) == 14694
    assert positives(data.validation.labels).unique().tolist() == [360]
    image = data.test.inputs.batch(torch.arange(64))
    assert image.shape == (64, 1, 32, 32)
    assert image.max() == 1
    assert torch.equal(image[5:6], data.test.inputs.batch(torch.tensor([5]), epoch=3))


@needs("mnist")
def test_multimnist_can_be_smaller_and_hold_out_training_images():
    parts = source("multimnist", test_items=500, validation=0.1, largest=1000).labels()
    assert len(parts["test"]) == 500
    assert len(parts["train"]) + len(parts["validation"]) == sum(exponential_counts(1000, 10, 100))
    assert (positives(parts["validation"]) > 0).all()


@needs("VOCdevkit/VOC2012/ImageSets/Main/voc-mlt-train.txt")
def test_voc_mlt_has_the_counts_and_groups_of_the_paper():
    found = splits("voc_mlt", validation=0.0)
    counts = positives(found.train)
    assert len(found.train) == 1142
    assert counts.tolist() == [6, 34, 8, 14, 154, 17, 249, 29, 479, 4, 240, 48, 11, 20, 775, 100, 5, 82, 7, 64]
    published = json.loads((DATA / "VOCdevkit" / "voc_mlt_train.json").read_text())
    assert found.train.lists() == published["labels"]
    assert {name: labels.tolist() for name, labels in groups(counts).items()} == {
        "head": published["groups"]["head"],
        "medium": published["groups"]["middle"],
        "tail": published["groups"]["tail"],
    }
    assert not set(found.test.ids) & set(found.train.ids)


@needs("VOCdevkit/mobilenetv2_features.npz")
def test_a_tenth_is_held_out_and_said():
    found = splits("voc_mlt", features="mobilenetv2")
    assert (len(found.train), len(found.validation)) == (1028, 114)
    assert (positives(found.validation) > 0).all()
    assert any("114 training items" in remark for remark in found.remarks)
    assert [len(labels) for labels in groups(found.published).values()] == [6, 6, 8]  # groups stay those of the paper


@needs("VOCdevkit/VOC2012/ImageSets/Main/plt-voc-train.txt", "VOCdevkit/mobilenetv2_features.npz")
def test_plt_voc_hides_positives_and_keeps_the_truth():
    whole = splits("plt_voc", validation=0.0, missing=0.0, features="mobilenetv2").train
    counts = [15, 100, 24, 38, 378, 48, 609, 81, 926, 9, 499, 134, 32, 60, 1661, 267, 13, 164, 20, 173]
    assert positives(whole).tolist() == counts  # the authors' own: difficult objects do not count
    found = splits("plt_voc", validation=0.0, features="mobilenetv2")
    assert found.truth == whole
    kept = positives(found.train).sum() / positives(whole).sum()
    assert 0.6 < kept < 0.8  # 60 %, and more as every image keeps one
    assert all(found.train.lists())
    assert found.validation == whole


@needs("VOCdevkit/VOC2012/ImageSets/Main/plt-voc-train.txt", "VOCdevkit/mobilenetv2_features.npz")
def test_groups_of_plt_voc_move_neither_with_the_seed_nor_with_what_is_missing():
    found = [
        splits("plt_voc", seed=seed, missing=missing) for seed, missing in ((0, 0.0), (0, 0.4), (1, 0.4), (2, 0.5))
    ]
    sizes = [[len(members) for members in groups(one.published).values()] for one in found]
    assert sizes == [[10, 7, 3]] * 4
    data = Data(name="plt_voc", features="mobilenetv2", root=str(DATA), groups_by="visible")
    seen = load(data, seed=0)
    assert torch.equal(group_counts(seen), positives(seen.train.labels))
    assert "visible" in counted_on(seen)
    whole = load(data.model_copy(update={"groups_by": "whole"}), seed=0)
    assert "before any were hidden or held out" in counted_on(whole)


@needs("VOCdevkit/VOC2012/ImageSets/Main/voc-mlt-train.txt")
def test_difficult_objects_are_what_one_wants():
    ids = (DATA / "VOCdevkit/VOC2012/ImageSets/Main/voc-mlt-train.txt").read_text().split()
    positive, negative, unknown = (
        source("voc_mlt", difficult=way).store(ids) for way in ("positive", "negative", "unknown")
    )
    assert positives(positive).sum() > positives(negative).sum()
    assert positives(unknown).equal(positives(negative))
    assert np.array_equal(np.isnan(unknown.dense()), positive.dense() != negative.dense())


@needs("VOCdevkit/mobilenetv2_features.npz", "VOCdevkit/VOC2012/JPEGImages")
def test_voc_mlt_gives_images_or_features():
    store = splits("voc_mlt", features="mobilenetv2").train
    inputs = source("voc_mlt", features="mobilenetv2").inputs(store, "train")
    stored = np.load(DATA / "VOCdevkit" / "mobilenetv2_features.npz", allow_pickle=False)
    row = stored["ids"].tolist().index(store.ids[17])
    assert torch.equal(inputs.batch(torch.tensor([17]))[0], torch.from_numpy(stored["X"][row].astype(np.float32)))
    images = source("voc_mlt", size=48).inputs(store, "train")
    assert images.batch(torch.arange(2), epoch=0).shape == (2, 3, 48, 48)


@needs("coco/coco_mlt_train.json", "coco/coco_val_full.txt.gz")
def test_coco_mlt_has_the_counts_and_groups_of_the_paper():
    found = splits("coco_mlt", validation=0.0)
    counts = positives(found.train)
    assert (len(found.train), counts.max(), counts.min()) == (1909, 1128, 6)
    assert [len(labels) for labels in groups(counts).values()] == [22, 33, 25]
    assert not {name[-16:] for name in found.test.ids} & {name[-16:] for name in found.train.ids}
    assert found.train.names[0] == "person"


@needs("coco/coco_train_full.txt.gz", "coco/coco_val_full.txt.gz")
def test_coco_lists_are_whole_or_partial():
    whole = splits("coco")
    assert len(whole.train) + len(whole.validation) == 82081
    assert positives(whole.train).sum() + positives(whole.validation).sum() == 241035
    counts = positives(whole.train) + positives(whole.validation)
    assert 352.9 <= counts.max() / counts.min() < 353
    assert len(whole.test) == 40137
    partial = splits("coco", annotations="0.4left")
    assert partial.truth == whole.train
    assert partial.validation == whole.validation
    assert all(partial.train.lists())
    assert 0.3 < positives(partial.train).sum() / positives(whole.train).sum() < 0.5
    assert positives(partial.train).sum() / len(partial.train) / 80 == pytest.approx(partial.train.observed_share)


@needs("coco/coco_train_full.txt.gz")
def test_absent_images_are_said():
    with pytest.raises(UserError, match=r"73,873 of 73,873 images are missing.*inspected.*https://cocodataset.org"):
        source("coco").inputs(splits("coco").train, "train")


@needs("coco/coco_train_full.txt.gz", "coco/coco_val_full.txt.gz")
def test_plt_coco_is_drawn_along_the_curve():
    found = splits("plt_coco", validation=0.0, missing=0.0)
    assert 2500 < len(found.train) < 3500  # 2,962 in the paper
    counts = positives(found.train)
    assert 1400 <= counts.max() < 2200  # persons come along with others; the authors' 1,240 are 60 % of such a number
    assert counts.min() >= 1
    one, other = (splits("plt_coco", seed=seed, drawn_by=0) for seed in (1, 2))
    assert set(one.train.ids) | set(one.validation.ids) == set(other.train.ids) | set(other.validation.ids)


@needs("nus-wide/nus_train_full.txt.gz")
def test_nus_wide_has_the_published_numbers():
    found = splits("nus_wide", validation=0.0)
    assert (len(found.train), len(found.test), found.train.labels) == (119103, 50720, 81)
    counts = positives(found.train)
    assert counts.max() / counts.min() == pytest.approx(1168, abs=1)


@pytest.mark.parametrize(
    ("name", "items", "features", "labels", "cardinality", "ratio"),
    [
        ("corel5k", (4500, 500), 499, 374, 3.522, 1120),
        ("enron", (1123, 579), 1001, 53, 3.378, 913),
        ("delicious", (12920, 3185), 500, 983, 19.020, 309),
        ("yeast", (1500, 917), 103, 14, 4.237, 53),
    ],
)
def test_mulan_sets_have_the_published_numbers(name, items, features, labels, cardinality, ratio):
    if not (DATA / "mulan" / name).exists():
        pytest.skip(f"mulan/{name} not found in {DATA}; set RARETAG_DATA")
    data = source(name, validation=0.0).load()
    assert (len(data.train), len(data.test)) == items
    assert data.train.inputs.batch(torch.arange(2)).shape == (2, features)
    counts = positives(data.train.labels) + positives(data.test.labels)
    assert len(counts) == labels
    assert counts.sum() / sum(items) == pytest.approx(cardinality, abs=1e-3)
    assert counts.max() / counts.min() == pytest.approx(ratio, abs=0.5)


@needs("mulan/corel5k")
def test_held_out_rows_keep_their_features():
    made = source("corel5k")
    data = made.load()
    row = int(data.validation.labels.ids[3].split("/")[1])
    given = data.validation.inputs.batch(torch.tensor([3]))[0].numpy()
    assert np.array_equal(given, made.read()["train"].features[[row]].toarray()[0])


@needs("goemotions")
def test_goemotions_has_the_official_split():
    made = source("goemotions", words=500)
    parts = made.labels()
    assert [len(parts[name]) for name in ("train", "validation", "test")] == [43410, 5426, 5427]
    assert parts["train"].names[-1] == "neutral"
    assert positives(parts["train"]).sum() / 43410 == pytest.approx(1.18, abs=0.01)
    assert made.texts["eebbqej"].startswith("My favourite food")


def test_long_tailed_cifar_has_the_counts_of_the_literature():
    for key, expected in GOLDEN["cifar_lt"].items():
        labels, ratio = (int(word) for word in key.removeprefix("cifar").split("_rho"))
        counts = exponential_counts(50000 // labels, labels, ratio)
        assert sum(counts) == expected["total"]
        assert counts[: len(expected["first"])] == expected["first"]
