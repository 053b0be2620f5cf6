"""Orders of items are functions of (seed, epoch), and have the shares the papers state."""

import json

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from raretag.core import registry
from raretag.core.errors import UserError
from raretag.engine.batches import cut, share
from raretag.sampling.stream import Stream
from support.paths import DATA


def long_tailed(items=400, labels=8, seed=0):
    generator = np.random.default_rng(seed)
    dense = generator.random((items, labels)) < 0.4 * 0.6 ** np.arange(labels)
    return dense.astype(np.int8)


def build(name, dense, **options):
    return registry.build("sampling", name, options, positives=csr_array(dense), seed=3)


every_sampler = pytest.mark.parametrize("name", registry.names("sampling"))


@every_sampler
def test_an_epoch_is_a_function_of_its_number(name):
    dense = long_tailed()
    sampler = build(name, dense)
    second = sampler.epoch(1)
    assert torch.equal(sampler.epoch(1), second)
    assert torch.equal(build(name, dense).epoch(1), second)
    assert not torch.equal(sampler.epoch(0)[:50], second[:50])
    assert second.dtype == torch.int64


@every_sampler
@pytest.mark.parametrize("processes", [1, 2, 8])
def test_processes_share_one_stream(name, processes):
    order = build(name, long_tailed()).epoch(0)
    for batch in cut(order, 64):
        shares = [share(batch, rank, processes) for rank in range(processes)]
        assert min(map(len, shares)) > 0
        assert sorted(torch.cat(shares).tolist()) == sorted(batch.tolist())


@pytest.mark.parametrize("items", [1, 5, 63, 64, 65, 95, 96, 97, 1000])
def test_batches_cover_the_epoch_once(items):
    batches = cut(torch.arange(items), 64)
    assert torch.equal(torch.cat(batches), torch.arange(items))
    assert all(len(batch) >= 32 for batch in batches[1:])


def test_uniform_sees_every_item_once():
    order = build("uniform", long_tailed()).epoch(4)
    assert order.sort().values.tolist() == list(range(400))


@pytest.mark.parametrize(("largest", "labels", "reduce", "length"), [(775, 20, 4, 3875), (1128, 80, 4, 22560)])
def test_class_aware_epochs_have_the_published_length(largest, labels, reduce, length):
    dense = np.zeros((largest, labels), dtype=np.int8)
    dense[:, 0] = 1
    dense[:3, 1:] = 1
    assert len(build("class_aware", dense, reduce=float(reduce)).epoch(0)) == length
    assert len(build("class_aware", dense, reduce=None).epoch(0)) == len(dense)


def test_class_aware_frequencies_follow_equation_1():
    dense = long_tailed().astype(float)
    sampler = build("class_aware", dense.astype(np.int8))
    rows = torch.cat([sampler.epoch(epoch) for epoch in range(200)]).numpy()
    n = dense.sum(0)
    p_hat = (dense.T @ dense / n[None, :]).mean(1)  # (1)
    error = 4 * np.sqrt(p_hat * (1 - p_hat) / len(rows))
    assert (np.abs(dense[rows].mean(0) - p_hat) <= error).all()


def test_class_aware_cycles_go_on_over_epochs():
    dense = np.zeros((100, 2), dtype=np.int8)
    dense[:90, 0], dense[90:, 1] = 1, 1
    sampler = build("class_aware", dense, run=1)
    rows = torch.cat([sampler.epoch(epoch) for epoch in range(4)])
    seen = torch.bincount(rows, minlength=100)
    assert seen[:90].max() - seen[:90].min() <= 1
    assert seen[90:].max() - seen[90:].min() <= 1


def test_class_aware_leaves_out_labels_without_positives():
    dense = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 1]], dtype=np.int8)
    assert set(build("class_aware", dense, reduce=0.1).epoch(0).tolist()) == {0, 1, 2}
    with pytest.raises(UserError, match="needs positives"):
        build("class_aware", dense * 0)


def test_undersampling_takes_at_most_s_for_a_label_and_an_item_once():
    dense = np.eye(4, dtype=np.int8).repeat([50, 20, 5, 1], axis=0)
    sampler = build("undersample", dense, per_label=10)
    rows = sampler.epoch(0).numpy()
    assert len(np.unique(rows)) == len(rows)
    assert dense[rows].sum(0).tolist() == [10, 10, 5, 1]
    assert set(rows) != set(sampler.epoch(1).numpy())


def test_undersampling_matched_in_steps_draws_until_an_epoch_is_as_long_as_the_data():
    dense = np.eye(4, dtype=np.int8).repeat([50, 20, 5, 1], axis=0)
    rows = build("undersample", dense, per_label=10, match_steps=True).epoch(0).numpy()
    assert len(rows) == 76
    assert dense[rows[:52]].sum(0).tolist() == [20, 20, 10, 2]  # two whole draws of 26
    assert set(rows[:26]) != set(rows[26:52])


def test_repeat_factors_follow_their_formula():
    dense = np.zeros((100, 2), dtype=np.int8)
    dense[:, 0], dense[:4, 1] = 1, 1  # f = 1 and 0.04
    sampler = build("repeat_factor", dense, threshold=0.25)  # r = 1 and 2.5
    rows = torch.cat([sampler.epoch(epoch) for epoch in range(400)])
    seen = torch.bincount(rows, minlength=100) / 400
    assert (seen[4:] == 1).all()
    assert ((seen[:4] - 2.5).abs() < 0.1).all()


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_streams_of_all_processes_are_the_order(processes):
    order = build("class_aware", long_tailed())
    streams = [Stream(order, rank=rank, processes=processes) for rank in range(processes)]
    for epoch in (0, 1):
        for stream in streams:
            stream.set_epoch(epoch)
        shares = [list(stream) for stream in streams]
        assert [len(stream) for stream in streams] == [len(share) for share in shares]
        dealt = [share[turn] for turn in range(len(shares[0])) for share in shares if turn < len(share)]
        assert dealt == order.epoch(epoch).tolist()


def test_a_stream_goes_on_where_it_was_saved():
    stream = Stream(build("uniform", long_tailed()))
    stream.set_epoch(2)
    reader = iter(stream)
    first = [next(reader) for _ in range(100)]
    again = Stream(build("uniform", long_tailed()))
    again.load_state_dict(stream.state_dict())
    again.set_epoch(2)
    assert first + list(again) == stream.order.epoch(2).tolist()


def test_an_engine_that_wraps_a_stream_is_told_so():
    class DistributedSamplerWrapper(torch.utils.data.DistributedSampler):
        def __init__(self, sampler):
            self.sampler = sampler
            super().__init__(list(range(len(sampler))), num_replicas=2, rank=0)

        def __iter__(self):
            indices = list(self.sampler)
            return (indices[index] for index in super().__iter__())

    with pytest.raises(UserError, match="share its indices out twice"):
        list(DistributedSamplerWrapper(Stream(build("uniform", long_tailed()))))


@pytest.mark.parametrize("name", ["voc_mlt", "coco_mlt"])
def test_class_aware_frequencies_follow_equation_1_on_the_published_lists(name):
    root = DATA
    lists = root / {"voc_mlt": "VOCdevkit/voc_mlt_train.json", "coco_mlt": "coco/coco_mlt_train.json"}[name]
    if not lists.exists():
        pytest.skip(f"{lists} is not here")
    rows = json.loads(lists.read_text())["labels"]
    dense = np.zeros((len(rows), 1 + max(map(max, rows))))
    for row, labels in enumerate(rows):
        dense[row, labels] = 1
    sampler = build("class_aware", dense.astype(np.int8))
    assert sampler.length == {"voc_mlt": 3875, "coco_mlt": 22560}[name]
    drawn = torch.cat([sampler.epoch(epoch) for epoch in range(20)]).numpy()
    p_hat = (dense.T @ dense / dense.sum(0)[None, :]).mean(1)  # (1)
    error = 4 * np.sqrt(p_hat * (1 - p_hat) / len(drawn))
    assert (np.abs(dense[drawn].mean(0) - p_hat) <= error).all()
