"""Text boxes and perspective parts with OpenCV and Clipper, for tests of the steps `text_boxes` and `cut`. Needs numpy, opencv-python-headless and pyclipper.

The steps are those of PaddleOCR's detector (score mode "fast", no dilation), but that holes of regions have no boxes of their own and that of too
many regions the largest count.
"""
import cv2
import numpy as np
import pyclipper


def regions(mask, most):
    """The outer contours, those of islands inside of holes too; of too many the largest, ties to the first in the order of rows."""
    contours, tree = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    outer = [c.reshape(-1, 2) for c, t in zip(contours, tree[0] if tree is not None else []) if t[3] < 0]
    if len(outer) <= most:
        return outer
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    flat = labels.reshape(-1)
    first = {label: i for i, label in reversed(list(enumerate(flat)))}
    label_of = [labels[c[0][1], c[0][0]] for c in outer]
    order = sorted(range(len(outer)), key=lambda i: (-stats[label_of[i], cv2.CC_STAT_AREA], first[label_of[i]]))
    return [outer[i] for i in order[:most]]


def rectangle(points):
    """Corners in PaddleOCR's order, and the shorter side."""
    found = cv2.minAreaRect(points)
    corners = cv2.boxPoints(found)
    halves = np.round(corners * 2) / 2  # the error of its floats decides nothing
    p = sorted(np.where(abs(corners - halves) < 2e-4, halves, corners).tolist(), key=lambda v: (v[0], v[1]))
    left = [p[0], p[1]] if p[1][1] > p[0][1] else [p[1], p[0]]
    right = [p[2], p[3]] if p[3][1] > p[2][1] else [p[3], p[2]]
    return np.array([left[0], right[0], right[1], left[1]], np.float32), min(found[1])


def is_unique(points):
    """Is there one rectangle of least area only?"""
    hull = cv2.convexHull(points).reshape(-1, 2).astype(float)
    found = []
    for a, b in zip(hull, np.roll(hull, -1, axis=0)):
        d = (b - a) / np.hypot(*(b - a)) if len(hull) > 1 else np.array([1.0, 0.0])
        along, across = hull @ d, hull @ [-d[1], d[0]]
        found.append((np.ptp(along) * np.ptp(across), np.arctan2(d[1], d[0]) % (np.pi / 2)))
    least = min(found)[0]
    angles = [angle for area, angle in found if area <= least * (1 + 1e-5) + 1e-9]
    return all(min(abs(a - angles[0]), np.pi / 2 - abs(a - angles[0])) < 1e-6 for a in angles)


def mean_inside(scores, corners):
    h, w = scores.shape
    low = np.clip(np.floor(corners.min(axis=0)), 0, [w - 1, h - 1]).astype(np.int32)
    high = np.clip(np.ceil(corners.max(axis=0)), 0, [w - 1, h - 1]).astype(np.int32)
    mask = np.zeros(high[::-1] - low[::-1] + 1, np.uint8)
    cv2.fillPoly(mask, (corners - low)[None].astype(np.int32), 1)
    return cv2.mean(scores[low[1]:high[1] + 1, low[0]:high[0] + 1], mask)[0]


def grown(corners, ratio):
    area, length = 0, 0
    for a, b in zip(corners.astype(float), np.roll(corners, -1, axis=0).astype(float)):
        area += (a[0] * b[1] - b[0] * a[1]) / 2
        length += np.hypot(*(b - a))
    offset = pyclipper.PyclipperOffset()
    offset.AddPath(corners.tolist(), pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    return np.concatenate([np.array(p).reshape(-1, 2) for p in offset.Execute(abs(area) * ratio / length)]).astype(np.int32)


def clockwise(box):
    """Corners of whole numbers: top left, top right, bottom right, bottom left."""
    by_x = sorted(box.tolist(), key=lambda v: v[0])
    left, right = sorted(by_x[:2], key=lambda v: v[1]), sorted(by_x[2:], key=lambda v: v[1])
    return np.array([left[0], right[0], right[1], left[1]])


def area_of(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def by_lines(boxes):
    """Indices in reading order."""
    order = sorted(range(len(boxes)), key=lambda i: (boxes[i][0][1], boxes[i][0][0]))
    for i in range(len(order) - 1):
        for k in range(i, -1, -1):
            a, b = boxes[order[k]][0], boxes[order[k + 1]][0]
            if abs(b[1] - a[1]) >= 10 or b[0] >= a[0]:
                break
            order[k], order[k + 1] = order[k + 1], order[k]
    return order


def text_boxes(scores, size, threshold, box_threshold, ratio, min_side, most):
    """scores f32 [h, w]; `size` of the picture. Corners [n, 4, 2], means [n], and whether the rounding of floats decides something: which of two equal
    rectangles is taken, or whether a mean reaches its threshold."""
    scores = np.clip(np.nan_to_num(scores, nan=0.0), 0, 1).astype(np.float32)
    h, w = scores.shape
    boxes, means, doubtful = [], [], False
    for contour in regions(scores > np.float32(threshold), most):
        corners, side = rectangle(contour)
        if side < min_side:
            continue
        mean = mean_inside(scores, corners)
        doubtful = doubtful or abs(mean - box_threshold) < 0.01 or not is_unique(contour)
        if mean < box_threshold:
            continue
        outline = grown(corners, ratio).reshape(-1, 1, 2)
        doubtful = doubtful or not is_unique(outline)
        corners, side = rectangle(outline)
        if side < min_side + 2:
            continue
        box = np.stack([np.clip(np.round(corners[:, 0] / w * size[1]), 0, size[1]), np.clip(np.round(corners[:, 1] / h * size[0]), 0, size[0])], 1)
        box = np.minimum(clockwise(box.astype(int)), [size[1] - 1, size[0] - 1])
        if int(np.linalg.norm(box[0] - box[1])) <= 3 or int(np.linalg.norm(box[0] - box[3])) <= 3:
            continue
        if any(area_of(box[i], box[(i + 1) % 4], box[(i + 2) % 4]) == 0 for i in range(4)):
            continue  # of which there is no perspective
        boxes.append(box)
        means.append(mean)
    order = by_lines(boxes)
    return np.array([boxes[i] for i in order], np.float32).reshape(-1, 4, 2), np.array([means[i] for i in order]), doubtful


def cut(picture, box, upright):
    box = np.asarray(box, np.float32)
    w = int(max(np.linalg.norm(box[0] - box[1]), np.linalg.norm(box[2] - box[3])))
    h = int(max(np.linalg.norm(box[0] - box[3]), np.linalg.norm(box[1] - box[2])))
    matrix = cv2.getPerspectiveTransform(box, np.array([[0, 0], [w, 0], [w, h], [0, h]], np.float32))
    if not matrix[:2].any():
        return None  # the first pixel is seen from the side, for which OpenCV has no matrix
    part = cv2.warpPerspective(picture, matrix, (w, h), borderMode=cv2.BORDER_REPLICATE, flags=cv2.INTER_CUBIC).reshape(h, w, -1)
    return np.rot90(part) if upright and h / w >= 1.5 else part


def page(rng, h, w, kind):
    """A map of scores with blobs of one kind."""
    scores = (rng.random((h, w)) * 0.2).astype(np.float32)

    def add(points):
        shape = np.zeros((h, w), np.uint8)
        cv2.fillPoly(shape, [np.round(points).astype(np.int32)], 1)
        scores[shape > 0] = np.maximum(scores[shape > 0], 0.35 + 0.65 * rng.random(int((shape > 0).sum())) ** 0.5)

    for _ in range(int(rng.integers(1, 16))):
        centre = rng.random(2) * [w, h]
        if kind == "border":
            centre[int(rng.integers(0, 2))] = 0 if rng.random() < 0.5 else (w if rng.random() < 0.5 else h)
        long, short = (rng.random(2) * 4 + 0.5) if kind == "tiny" else (rng.random() * w / 3 + 4, rng.random() * 14 + 2)
        angle = 0 if kind == "upright" else rng.random() * np.pi if kind != "lines" else rng.normal() * 0.05
        along, across = np.array([np.cos(angle), np.sin(angle)]) * long / 2, np.array([-np.sin(angle), np.cos(angle)]) * short / 2
        corners = np.array([centre - along - across, centre + along - across, centre + along + across, centre - along + across])
        if kind == "ragged":
            turns = np.sort(rng.random(12)) * 2 * np.pi
            corners = np.array([centre + np.cos(t) * along * rng.random() * 2 + np.sin(t) * across * 4 * rng.random() for t in turns])
        add(corners)
    if kind == "noise":
        scores[:] = rng.random((h, w))
    return scores


KINDS = ("upright", "lines", "turned", "border", "tiny", "ragged", "noise")
