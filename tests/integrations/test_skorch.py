"""A method of raretag as the criterion of skorch: rows instead of labels, epochs, its parameters in the optimizer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raretag

skorch = pytest.importorskip("skorch")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]


class Epochs(skorch.callbacks.Callback):
    def on_epoch_end(self, net, **_):
        net.criterion_.end_epoch()


@pytest.mark.parametrize("method", ["partial_label_masking", "dynamic_pseudo_labels", "role"])
def test_a_method_as_a_criterion(method):
    draw = np.random.default_rng(0)
    X = draw.normal(size=(40, 4)).astype(np.float32)
    Y = np.where(draw.random((40, 3)) < 0.3, np.nan, X[:, :3] > 0)
    loss = raretag.bind(method, raretag.LabelStore.from_dense(Y), epochs=3)
    model = torch.nn.Linear(4, 3)
    before = model.weight.detach().clone()
    net = skorch.NeuralNet(
        model,
        criterion=loss,
        optimizer=torch.optim.AdamW,
        max_epochs=3,
        train_split=None,
        callbacks=[Epochs()],
        verbose=0,
    )
    net.fit(X, np.arange(len(X)))
    assert (net.criterion_ is loss, loss.epoch) == (True, 3)
    assert not torch.equal(net.module_.weight, before)
    assert all(float(parameter.detach().abs().sum()) > 0 for parameter in loss.parameters())
