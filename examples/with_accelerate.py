"""Accelerate: a loop of one's own on any number of processes, with the state of the method in its checkpoints.

`python with_accelerate.py`, or `torchrun --nproc-per-node 2 with_accelerate.py`. Needs
`pip install 'raretag[huggingface]'`.
"""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import raretag

generator = torch.Generator().manual_seed(0)
X = torch.randn(240, 8, generator=generator)
Y = (X[:, :4] > torch.tensor([0.0, 0.5, 1.0, 1.5])).float()
Y[torch.rand(Y.shape, generator=generator) < 0.25] = float("nan")
labels = raretag.LabelStore.from_dense(Y)

torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
loss = raretag.bind("role", labels, epochs=3)
optimizer = torch.optim.AdamW([{"params": model.parameters()}, *loss.parameter_groups(0.02)], lr=0.02)
order = raretag.sampling.Stream(labels.sampler(loss.sampler, seed=0))  # Accelerate shares it out
loader = DataLoader(TensorDataset(X, torch.arange(len(X))), batch_size=12, sampler=order)

accelerator = Accelerator(cpu=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
accelerator.register_for_checkpointing(loss)  # its memory, its parameters and its epoch
for epoch in range(3):
    order.set_epoch(epoch)
    loader.set_epoch(epoch)  # or Accelerate would begin again with epoch 0 after a resume
    for x, rows in loader:
        value = loss(model(x), rows)
        accelerator.backward(value)
        optimizer.step()
        optimizer.zero_grad()
    loss.end_epoch()

accelerator.save_state("with_accelerate")  # a folder; `load_state` brings all of it back
found = raretag.metrics.average_precision(accelerator.unwrap_model(model)(X).detach(), labels.targets())
accelerator.print(f"mAP {found.nanmean():.4f} after {loss.epoch} epochs, the last loss {value.detach():.4f}")
accelerator.end_training()
