"""skorch: a scikit-learn estimator of a torch module, with partial label masking as its criterion.

The criterion gets row numbers instead of labels: `fit(X, numpy.arange(len(X)))`. Needs `pip install skorch`.
"""

import numpy as np
import skorch
import torch

import raretag

draw = np.random.default_rng(0)
X = draw.normal(size=(240, 8)).astype(np.float32)
Y = (X[:, :4] > [0.0, 0.5, 1.0, 1.5]).astype(float)
Y[draw.random(Y.shape) < 0.25] = np.nan
labels = raretag.LabelStore.from_dense(Y)


class Epochs(skorch.callbacks.Callback):
    """Lets the method learn from each epoch."""

    def on_epoch_end(self, net, **_):
        net.criterion_.end_epoch()


torch.manual_seed(0)
net = skorch.NeuralNet(
    torch.nn.Linear(8, 4),
    criterion=raretag.bind("partial_label_masking", labels, epochs=5),
    optimizer=torch.optim.AdamW,
    lr=0.05,
    max_epochs=5,
    iterator_train__shuffle=True,
    train_split=None,
    callbacks=[Epochs()],
    verbose=0,
)
net.fit(X, np.arange(len(X)))
found = raretag.metrics.average_precision(torch.from_numpy(net.forward(X).numpy()), labels.targets())
print(f"mAP {found.nanmean():.4f} after {net.criterion_.epoch} epochs")
