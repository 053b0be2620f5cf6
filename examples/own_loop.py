"""A training loop of your own: a model, an optimizer, and a method that is bound to partly unknown labels."""

from __future__ import annotations

import numpy as np
import torch

import raretag

EPOCHS, ITEMS, TAGS = 20, 400, 6


def main() -> None:
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    inputs = torch.randn(ITEMS, 16)
    truth = ((inputs[:, :TAGS] - torch.linspace(0.0, 1.5, TAGS)) > 0).float().numpy()  # the last tags are rare
    known = np.where(generator.random(truth.shape) < 0.7, truth, np.nan)  # nobody looked at three in ten
    labels = raretag.LabelStore.from_dense(known)

    model = torch.nn.Linear(16, TAGS)
    loss = raretag.bind("dynamic_pseudo_labels", labels, epochs=EPOCHS)
    optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=0.02)
    order = raretag.sampling.ClassAware(labels.sparse(), reduce=None)
    for epoch in range(EPOCHS):
        loss.set_epoch(epoch)
        for rows in order.epoch(epoch).split(32):
            value = loss(model(inputs[rows]), rows)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        loss.end_epoch()

    found = loss.logits(model(inputs)).detach()
    everything = raretag.Targets.from_dense(torch.from_numpy(truth))
    print(f"mAP {100 * raretag.metrics.mean_average_precision(found, everything):.1f}")


if __name__ == "__main__":
    main()
