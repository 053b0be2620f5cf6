"""From objects in Python to a DataSet: arrays, a Hugging Face dataset, any torch Dataset."""

from raretag.data.python.arrays import from_arrays as from_arrays
from raretag.data.python.huggingface import from_huggingface as from_huggingface
from raretag.data.python.torch_dataset import from_torch as from_torch
