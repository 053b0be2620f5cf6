"""Hugging Face Trainer: a tiny transformer with ROLE as its loss, whose estimates of unknown labels learn too.

Needs `pip install 'raretag[huggingface]'`.
"""

import tempfile

import numpy as np
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

import raretag
from raretag.huggingface import Trainer

draw = np.random.default_rng(0)
tokens = draw.integers(2, 30, size=(200, 6))
Y = np.stack([(tokens == word).any(axis=1) for word in (3, 4, 5)], axis=1).astype(float)
Y[draw.random(Y.shape) < 0.3] = np.nan  # nobody looked
labels = raretag.LabelStore.from_dense(Y, names=["three", "four", "five"])
items = [{"input_ids": row, "attention_mask": [1] * 6} for row in tokens.tolist()]
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}

with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        method="role",
        labels=labels.take(range(150)),
        eval_labels=labels.take(range(150, 200)),
        model=BertForSequenceClassification(BertConfig(vocab_size=30, num_labels=3, **sizes)),
        args=TrainingArguments(folder, num_train_epochs=5, learning_rate=1e-2, report_to=[], use_cpu=True),
        train_dataset=items[:150],
        eval_dataset=items[150:],
    )
    trainer.train()
    print({name: round(value, 3) for name, value in trainer.evaluate().items() if "mAP" in name})
