"""Ray Data: predictions of a trained model by several workers of a cluster.

Needs `pip install 'raretag[ray]'`. Training on a cluster is `raretag train --on ray --devices 8`.
"""

import tempfile

import numpy as np
import ray

import raretag

X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
with tempfile.TemporaryDirectory() as folder:
    run = raretag.train((X, X[:, :2] > 0.5), out=f"{folder}/run", listener=raretag.Listener())
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    items = ray.data.from_items([{"item": row} for row in X])
    found = items.map_batches(
        raretag.ray.Predictor, fn_constructor_args=[str(run.folder)], concurrency=2, batch_size=50
    ).take_all()
    print(len(found), "items, the first has", list(found[0]["labels"]))
