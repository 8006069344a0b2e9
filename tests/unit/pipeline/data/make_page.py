#!/usr/bin/env python3
"""Writes page.npz: text boxes of small maps and parts of small pictures, as tests/support/page_reference.py makes them with OpenCV 4.6.0 and Clipper.

    python3 make_page.py     needs opencv-python-headless 4.6.0.66, pyclipper 1.4.0 and numpy 1.26.4 (PyPI)
Keys, for N from 0: "map/N" u8 [h, w], to be divided by 255; "options/N" f64: height and width of the picture, threshold, box_threshold, unclip_ratio,
min_side, max_candidates; "boxes/N" f32 [n, 4, 2]; "means/N" f32 [n]. "picture/N" u8 [h, w, c], "quad/N" f32 [4, 2], "part/N" u8.
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "support"))
import page_reference as page  # noqa: E402

rng = np.random.default_rng(2026)
out = {}
n = 0
while n < 28:
    kind = page.KINDS[n % len(page.KINDS)]
    h, w = int(rng.integers(24, 72)), int(rng.integers(24, 96))
    scores = np.round(page.page(rng, h, w, kind) * 255).astype(np.uint8)
    size = (h, w) if n % 2 else (int(h * (rng.random() * 2 + 0.4)), int(w * (rng.random() * 2 + 0.4)))
    options = [0.3, float(rng.choice([0.3, 0.5, 0.6])), float(rng.choice([1.5, 1.6, 2.0])), 3, int(rng.choice([3, 1000]))]
    boxes, means, doubtful = page.text_boxes(scores.astype(np.float32) / np.float32(255), size, *options)
    if doubtful or (kind != "noise" and len(boxes) == 0):
        continue
    out[f"map/{n}"], out[f"options/{n}"] = scores, np.array([*size, *options], np.float64)
    out[f"boxes/{n}"], out[f"means/{n}"] = boxes, means.astype(np.float32)
    n += 1
for n in range(24):
    h, w, c = int(rng.integers(1, 40)), int(rng.integers(1, 40)), (1, 3, 4)[n % 3]
    picture = rng.integers(0, 256, (h, w, c)).astype(np.uint8)
    if n % 4 == 0:  # upright
        x, y = rng.integers(0, 20, 2), rng.integers(0, 20, 2)
        quad = np.array([[x[0], y[0]], [x[0] + x[1] + 4, y[0]], [x[0] + x[1] + 4, y[0] + y[1] + 4], [x[0], y[0] + y[1] + 4]])
    else:
        angle, sides = rng.random() * 2 * np.pi, rng.random(2) * 14 + 3
        along, across = np.array([np.cos(angle), np.sin(angle)]) * sides[0], np.array([-np.sin(angle), np.cos(angle)]) * sides[1]
        centre = rng.random(2) * [w, h]
        quad = np.array([centre - along - across, centre + along - across, centre + along + across, centre - along + across])
        quad = quad + rng.normal(size=(4, 2)) * 1.5 if n % 4 > 1 else np.round(quad)
    quad = quad.astype(np.float32)
    out[f"picture/{n}"], out[f"quad/{n}"], out[f"part/{n}"] = picture, quad, np.ascontiguousarray(page.cut(picture, quad, True))
np.savez_compressed(HERE / "page.npz", **out)
print(len(out), sum(len(v) for k, v in out.items() if k.startswith("boxes/")), "boxes")
