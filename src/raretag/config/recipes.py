"""How the papers trained, by name: `--set train.recipe=NAME`. What the user sets himself stays as he set it.

Shares replace epochs where a paper gives epochs, so that a recipe scales to any number of them.
"""

from __future__ import annotations

from typing import Any

RECIPES: dict[str, dict[str, Any]] = {
    # Duarte et al. 2021, MultiMNIST: SGD, 90 epochs, tenfold decay after 60 and 80, warm-up of 5 epochs.
    "plm": {
        "epochs": 90,
        "batch_size": 128,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "schedule": "steps",
        "milestones": (60 / 90, 80 / 90),
        "warmup": 5 / 90,
    },
    # Wu et al. 2020: class-aware epochs; warm-up of 500 steps from a third of the rate; gradient norm up to 35.
    "db": {
        "epochs": 8,
        "batch_size": 32,
        "optimizer": "sgd",
        "learning_rate": 0.02,
        "schedule": "steps",
        "milestones": (5 / 8, 7 / 8),
        "warmup_steps": 500,
        "warmup_from": 1 / 3,
        "clip": 35.0,
    },
    # Wu et al. 2020, methods without resampling: 80 epochs, decay after 55 and 70.
    "db_uniform": {
        "epochs": 80,
        "batch_size": 32,
        "optimizer": "sgd",
        "learning_rate": 0.02,
        "schedule": "steps",
        "milestones": (55 / 80, 70 / 80),
        "warmup_steps": 500,
        "warmup_from": 1 / 3,
        "clip": 35.0,
    },
    # Zhang, Cao et al. 2023 (COMIC): Adam (AdamW without decay), 40 epochs, batches of 32. The rate is not in print;
    # this is that of the authors' code.
    "comic": {
        "epochs": 40,
        "batch_size": 32,
        "optimizer": "adamw",
        "learning_rate": 1e-4,
        "weight_decay": 0.0,
        "schedule": "constant",
        "warmup": 0.0,
    },
    # Cui et al. 2019, CIFAR: 200 epochs, hundredfold decay after 160 and 180, warm-up of 5 epochs.
    "cui": {
        "epochs": 200,
        "batch_size": 128,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "weight_decay": 2e-4,
        "schedule": "steps",
        "milestones": (0.8, 0.9),
        "decay": 0.01,
        "warmup": 5 / 200,
    },
    # Ridnik et al. 2021: Adam (here AdamW) with a one-cycle rate and a moving average of the weights.
    "asl": {
        "epochs": 40,
        "batch_size": 128,
        "optimizer": "adamw",
        "learning_rate": 1e-4,
        "schedule": "cosine",
        "warmup": 0.2,
        "average": 0.9997,
    },
    # Cole et al. 2021: Adam (AdamW without decay), constant rate, stop on validation.
    "spml": {
        "epochs": 10,
        "batch_size": 16,
        "optimizer": "adamw",
        "learning_rate": 1e-5,
        "weight_decay": 0.0,
        "schedule": "constant",
        "warmup": 0.0,
        "patience": 3,
    },
    # Heads on frozen features; longer training did harm under missing labels in our trials.
    "features": {
        "epochs": 30,
        "batch_size": 64,
        "optimizer": "adamw",
        "learning_rate": 1e-3,
        "schedule": "cosine",
        "warmup": 0.1,
    },
}
