"""How feature vectors are brought to one scale before the first layer (`data.prepare`).

Each module stands before a backbone and learns its numbers from the training items alone. They are buffers of the
model, so what predicts later prepares new items as training did.
"""
