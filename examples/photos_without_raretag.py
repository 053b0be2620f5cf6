"""Tags of photographs from an exported model, with nothing of raretag: onnxruntime, Pillow and NumPy.

First: raretag export runs/photos --to onnx --preprocess --decide --out photos.onnx
Then: python examples/photos_without_raretag.py photos.onnx a.jpg b.jpg
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
about = json.loads(session.get_modelmeta().custom_metadata_map["raretag"])
side = about["inputs"]["size"]  # uint8 [batch, side, side, 3] goes in
for path in sys.argv[2:]:
    photo = ImageOps.exif_transpose(Image.open(path)).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    probabilities, chosen = session.run(None, {"inputs": np.asarray(photo)[None]})
    found = zip(about["labels"], probabilities[0].tolist(), chosen[0], strict=True)
    tags = {label: round(probability, 3) for label, probability, yes in found if yes}
    print(json.dumps({"photo": path, "tags": tags}))
