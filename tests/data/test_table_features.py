"""Numbers of a table, or of a file beside it, as inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from scipy import sparse

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.data.inputs.described import inputs_from
from raretag.data.inputs.features import Features, Scale
from raretag.data.table import Table
from raretag.engine.batches import build_fabric
from raretag.engine.prepare import prepare
from support.written_tables import csv, labelled


def test_features_are_standardised_by_the_training_items_alone(write):
    random = np.random.default_rng(0)
    values = random.normal(5, 3, (40, 2))
    lines = "".join(f"{a},{b},7,{i % 2},{'test' if i >= 30 else 'train'}\n" for i, (a, b) in enumerate(values))
    data = Table(file=write("a.csv", "x,y,same,cat,split\n" + lines)).load()
    train = data.train.inputs.batch(torch.arange(len(data.train)))
    assert torch.allclose(train[:, :2].mean(0), torch.zeros(2), atol=1e-5)
    assert torch.allclose(train[:, :2].std(0, correction=0), torch.ones(2), atol=1e-5)
    assert (train[:, 2] == 0).all()
    assert data.test.inputs.batch(torch.arange(len(data.test))).mean().abs() > 1e-3


def test_columns_that_will_not_teach_are_pointed_out(write):
    values = np.random.default_rng(0).normal(5, 3, 40)
    far = "1e30"
    lines = "".join(f"{x},7,{far if i == 3 else x},{i % 2}\n" for i, x in enumerate(values))
    remarks = Table(file=write("a.csv", "x,same,broken,cat\n" + lines)).load().remarks
    assert any(line.endswith("carries no information: 'same'") for line in remarks)
    assert any("placeholder for a missing one: 'broken' has 1e+30 where" in line for line in remarks)
    assert not any("'x'" in line and ("carries" in line or "placeholder" in line) for line in remarks)


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_features_may_be_a_file_beside_the_table(write, tmp_path, ending):
    values = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    {
        "npy": lambda path: np.save(path, values),
        "npz": lambda path: sparse.save_npz(path, sparse.csr_array(values)),
        "safetensors": lambda path: save_file({"features": values}, path),
    }[ending](tmp_path / f"x.{ending}")
    data = Table(file=write("a.csv", csv()), features=f"x.{ending}", standardise=False).load()
    first = int(data.train.labels.ids[0][1:])
    assert np.array_equal(data.train.inputs.batch(torch.tensor([0]))[0].numpy(), values[first])
    with pytest.raises(UserError, match=r"20 rows and b[.]csv has 16"):
        Table(file=write("b.csv", csv(count=16)), features=f"x.{ending}").load()


def test_pickled_features_are_refused(write, tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}] * 20, dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match=r"x[.]npy"):
        Table(file=write("a.csv", csv()), features="x.npy").load()


def test_blank_features_fail_or_are_left_out_where_columns_are_plain_numbers(write):
    content = "x,cat\n" + "".join(f"{'' if i == 4 else i},{i % 2}\n" for i in range(21))
    file = write("a.csv", content)
    with pytest.raises(UserError, match=r"1 of 21 items.*a\.csv, line 6"):
        Table(file=file, mixed=False).load()
    data = Table(file=file, bad_items="skip", mixed=False).load()
    assert "5" not in labelled(data)
    assert len(labelled(data)) == 20


def test_sparse_features_give_the_same_batches_as_dense_ones():
    dense = np.random.default_rng(0).random((10, 6)).astype(np.float32) * (np.arange(6) % 2)
    some = torch.tensor([3, 1, 1])
    assert torch.equal(Features(sparse.csr_array(dense)).batch(some), Features(dense).batch(some))


def test_new_features_become_what_training_features_became(write):
    content = "x,y2,cat\n" + "".join(f"{i},{i * i},{i % 2}\n" for i in range(20))
    data = Table(file=write("a.csv", content)).load()
    raw = np.array([[i, i * i] for i in range(20)], np.float32)
    shipped = json.loads(json.dumps(data.train.inputs.describe()))
    expected = data.train.inputs.batch(torch.arange(len(data.train)))
    assert torch.equal(inputs_from(shipped, raw).batch(data.train.inputs.rows), expected)
    assert shipped["names"] == ["x", "y2"]
    with pytest.raises(UserError, match="the model expects"):
        inputs_from(shipped, raw[:, :1])


def test_scales_of_large_numbers_lose_nothing():
    values = np.random.default_rng(0).normal(1e8, 1.0, (10_000, 1))
    scale = Scale.of(values, np.arange(10_000))
    assert scale.std == pytest.approx(values.std(axis=0), rel=1e-6)


def test_features_of_a_wide_table_are_standardised_once(write):
    """By the data; the model only gives rows one length, with the numbers of standardising twice."""
    values = np.random.default_rng(0).normal(5, 3, (60, 40))
    values[:, 7] = 2.0
    header = ",".join([*(f"x{i}" for i in range(40)), "tags"])
    lines = [",".join(f"{v:.4f}" for v in row) + f",{'a' if i % 2 else 'b'}" for i, row in enumerate(values)]
    data = Table(file=write("a.csv", "\n".join([header, *lines, ""]))).load()
    rows = data.train.inputs.batch(torch.arange(len(data.train)))
    prepared = {}
    for rule in ("auto", "dense"):
        config = compose(None, [f"data.prepare={rule}", "model.name=mlp", "model.layers=0"])
        made = prepare(config, build_fabric(config.train), data=data)
        prepared[made.config.data.prepare] = made.training.model.get_submodule("backbone")(rows)
    assert torch.allclose(prepared["standardised"], prepared["dense"], atol=1e-6)
