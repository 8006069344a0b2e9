"""Rows of equal scores may change places, others may not. Exit code 77 (skipped) where numpy is missing."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import numpy as np
except ImportError:
    sys.exit(77)
import rows

boxes = np.array([[0, 0, 9, 9], [1, 1, 5, 5], [2, 2, 7, 7], [3, 3, 4, 4]], np.float32)
scores = np.array([0.9, 0.5, 0.499999, 0.1], np.float32)
labels = np.array([1, 2, 3, 4])
swapped = [0, 2, 1, 3]

have, moved = rows.same_order([boxes, scores, labels], [boxes[swapped], scores, labels[swapped]])
assert moved == 2 and (have[0] == boxes).all() and (have[2] == labels).all()
have, moved = rows.same_order([boxes, scores, labels], [boxes[[3, 1, 2, 0]], scores, labels])  # another box for another score
assert moved == 0 and (have[0] != boxes).any()
have, moved = rows.same_order([boxes, scores, labels], [boxes, scores * 0.9, labels])  # other scores
assert moved == 0 and (have[1] == scores * np.float32(0.9)).all()
have, moved = rows.same_order([boxes, labels], [boxes[swapped], labels[swapped]])  # nothing to sort by
assert moved == 0 and (have[0] == boxes[swapped]).all()
have, moved = rows.same_order([boxes, scores], [boxes[:3], scores[:3]])
assert moved == 0 and len(have[0]) == 3
