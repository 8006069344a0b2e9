"""The rows of a detector's answer, which are sorted by score: those of equal scores in the order of another answer."""
import numpy as np

SAME_SCORE = 1e-3  # of the largest: what a score may be wrong by (compare.py)


def scores_of(answers):
    """The output that the rows of the others are sorted by: falling numbers, one for each row; None where nothing looks like it."""
    counts = [x.shape[0] if x.ndim else -1 for x in answers]
    for x, count in zip(answers, counts):
        if x.ndim == 1 and x.dtype.kind == "f" and counts.count(count) > 1 and count > 1 and np.isfinite(x).all() and (np.diff(x) <= 0).all():
            return x
    return None


def same_order(want, have):
    """`have`, its rows of equal scores in the order of `want`; and how many rows that moved."""
    want, have = [np.asarray(x) for x in want], [np.asarray(x) for x in have]
    scores = scores_of(want)
    if scores is None or any(x.shape != y.shape or x.dtype.kind not in "fiu" for x, y in zip(want, have)):
        return have, 0
    listed = [k for k, x in enumerate(want) if x.ndim and len(x) == len(scores)]
    sizes = {k: max(float(np.abs(want[k]).max(initial=0)), 1e-30) for k in listed}
    at = next(k for k in listed if want[k] is scores)
    order, free = np.arange(len(scores)), np.ones(len(scores), bool)
    for row, score in enumerate(scores):
        near = np.flatnonzero(free & (np.abs(have[at] - score) <= SAME_SCORE * sizes[at]))
        if not len(near):
            return have, 0  # the scores themselves differ
        apart = [max(float(np.abs(want[k][row].astype(np.float64) - have[k][other]).max(initial=0)) / sizes[k] for k in listed) for other in near]
        order[row] = near[int(np.argmin(apart))]
        free[order[row]] = False
    return [x[order] if k in listed else x for k, x in enumerate(have)], int((order != np.arange(len(order))).sum())
