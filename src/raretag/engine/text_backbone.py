"""A text encoder trained further, alone (`train.fine_tune`): head first, then both together.

    1.  Texts become token numbers (`data.representation: tokens`), and the encoder's folder becomes the backbone.
    2.  Logistic regression on the vectors of the frozen encoder fills the head, where it is linear.
    3.  Head and encoder are trained by steps with any method, the encoder at a small rate.

Kumar et al., "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution", ICLR 2022,
arXiv:2202.10054: a head with random weights pulls an encoder away from what it knows before it has learned anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from raretag.config.settings import Config, Train
from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.core.protocols import Describes, Inputs
from raretag.core.solver import Solver
from raretag.data.dataset import DataSet
from raretag.data.inputs.tokens import KIND
from raretag.engine.batches import features_of

if TYPE_CHECKING:
    from lightning_fabric import Fabric

BACKBONE = "text_transformer"
TRAINING: dict[str, Any] = {  # what is not set; rates as usual for encoders of this kind
    "epochs": 8,
    "batch_size": 16,
    "learning_rate": 1e-3,
    "backbone_rate": 0.05,
    "weight_decay": 1e-2,
    "clip": 1.0,
}


def with_tokens(config: Config) -> Config:
    """Settings under which texts become token numbers, if they are to be fine-tuned; images and features stay."""
    if not config.train.fine_tune or "representation" not in registry.parameters(
        registry.find("data", config.data.name)
    ):
        return config
    asked = config.data.options.get("representation") or "auto"
    if asked not in ("auto", KIND):
        raise UserError(
            f"train.fine_tune trains an encoder on tokens, but data.representation is {asked}; leave it out"
        )
    return config.model_copy(update={"data": config.data.model_copy(update={"representation": KIND})})


def reads_tokens(inputs: Inputs) -> bool:
    return isinstance(inputs, Describes) and inputs.describe().get("kind") == KIND


def with_backbone(config: Config, data: DataSet) -> Config:
    """The encoder of the data as the model, and the training that suits it, where nothing else was set."""
    if not config.train.fine_tune or config.model.name != "auto":
        return config
    if not reads_tokens(data.train.inputs):
        if len(data.input_shape) == 1:
            raise UserError(
                "train.fine_tune is true, but items are feature vectors: there is no encoder to train further"
            )
        return config
    from raretag.data.inputs.encoder import encoder_folder
    from raretag.models.sentence_folder import read_folder

    folder = encoder_folder(data.notes["texts"]["encoder"])
    layout = read_folder(folder).layout.described()
    model = config.model.model_copy(update={"name": BACKBONE, "folder": str(folder), "layout": layout})
    given = {name: getattr(config.train, name) for name in config.train.model_fields_set}
    return config.model_copy(update={"model": model, "train": Train(**{**TRAINING, **given})})


def head_first(model: nn.Module, data: DataSet, config: Config, fabric: Fabric, listener: Listener) -> None:
    """Fill a linear head from the vectors of the encoder as it is."""
    if config.model.name != BACKBONE or config.head.name != "linear" or config.branches.name != "single":
        return
    listener.message("fine-tuning: the head starts as logistic regression on the frozen encoder's vectors")
    solver: Solver = registry.build("solvers", "logistic_regression", {}, kind=Solver, seed=config.seed)
    rows = 4 * config.train.batch_size
    solver.solve(lambda: features_of(model, data.train, fabric, rows), model.get_submodule("head"), Listener())
