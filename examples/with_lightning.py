"""Lightning: distribution-balanced loss with its class-aware sampler, on labels of which some are unknown.

Needs `pip install 'raretag[lightning]'`.
"""

import lightning
import torch

import raretag

generator = torch.Generator().manual_seed(0)
X = torch.randn(400, 8, generator=generator)
Y = (X[:, :4] > torch.tensor([0.0, 0.5, 1.0, 1.5])).float()
Y[torch.rand(Y.shape, generator=generator) < 0.25] = float("nan")
labels = raretag.LabelStore.from_dense(Y)

module = raretag.lightning.Module(
    torch.nn.Linear(8, 4), "distribution_balanced", labels.take(range(300)), learning_rate=0.05
)
trainer = lightning.Trainer(max_epochs=5, accelerator="cpu", logger=False, enable_checkpointing=False)
trainer.fit(module, module.loader(X[:300], batch_size=16), module.eval_loader(X[300:], labels.take(range(300, 400))))
print({name: round(float(value), 3) for name, value in trainer.callback_metrics.items()})
