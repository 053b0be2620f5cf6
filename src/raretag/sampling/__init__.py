"""In which order items are seen. A sampler is a function: the epoch's number in, the whole global order of rows out.

It keeps no position and draws nothing from a global generator. So processes share one stream by taking every n-th row,
and a run that resumes takes up the same order where it left it.
"""
