#!/usr/bin/python3
"""Writes expected.npz: what Pillow, OpenCV and NumPy make of small pictures of noise. Versions are in versions.json.

    /usr/bin/python3 make.py     needs python3-pil 9.4.0 and python3-numpy of Debian 12, and
                                 opencv-python-headless 4.6.0.66 (PyPI)
Keys: "in/HxWxC" a picture; "pillow/KERNEL/HxWxC/hxw", "opencv/KERNEL/..." it resized; "pad/MODE/...", "letterbox/...",
"gray/...", "normalize/..."; "logits", "softmax".
"""
import json
import pathlib
import sys

import cv2
import numpy as np
import PIL
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
rng = np.random.default_rng(2026)
out = {}


def picture(h, w, c):
    key = f"in/{h}x{w}x{c}"
    if key not in out:
        noise = rng.integers(0, 256, (h, w, c))
        steps = (np.add.outer(np.arange(h) // 3, np.arange(w) // 4) % 2 * 255)[..., None]  # hard edges overshoot
        out[key] = np.where(rng.random((h, w, 1)) < 0.5, noise, steps).astype(np.uint8)
    return out[key]


def image(a):
    return Image.fromarray(a[..., 0] if a.shape[2] == 1 else a)


def array(i, channels):
    return np.asarray(i).reshape(i.size[1], i.size[0], channels)


KERNELS = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR, "hamming": Image.HAMMING,
           "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
CASES = [((17, 23, 3), (9, 40)), ((17, 23, 3), (28, 28)), ((17, 23, 3), (17, 11)), ((17, 23, 3), (5, 23)), ((40, 31, 1), (28, 28)),
         ((40, 31, 1), (7, 7)), ((1, 50, 3), (4, 13)), ((9, 1, 1), (3, 5)), ((64, 3, 3), (5, 9)), ((12, 118, 1), (8, 53)),
         ((33, 47, 3), (32, 46)), ((30, 20, 3), (15, 10))]


def ultralytics_letterbox(a, h, w, scaleup, value):
    r = min(h / a.shape[0], w / a.shape[1])
    if not scaleup:
        r = min(r, 1.0)
    size = int(round(a.shape[1] * r)), int(round(a.shape[0] * r))
    dw, dh = (w - size[0]) / 2, (h - size[1]) / 2
    if a.shape[1::-1] != size:
        a = cv2.resize(a, size, interpolation=cv2.INTER_LINEAR)
    top, bottom, left, right = int(round(dh - 0.1)), int(round(dh + 0.1)), int(round(dw - 0.1)), int(round(dw + 0.1))
    return cv2.copyMakeBorder(a, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(value,) * 3)


for (h, w, c), (oh, ow) in CASES:
    a = picture(h, w, c)
    for name, kernel in KERNELS.items():
        out[f"pillow/{name}/{h}x{w}x{c}/{oh}x{ow}"] = array(image(a).resize((ow, oh), kernel), c)
    for name, kernel in (("nearest", cv2.INTER_NEAREST), ("linear", cv2.INTER_LINEAR)):
        out[f"opencv/{name}/{h}x{w}x{c}/{oh}x{ow}"] = cv2.resize(a, (ow, oh), interpolation=kernel).reshape(oh, ow, c)

a = picture(17, 23, 3)
for mode in ("constant", "edge", "reflect", "symmetric"):
    extra = {"constant_values": 7} if mode == "constant" else {}
    out[f"pad/{mode}/17x23x3"] = np.pad(a, ((2, 20), (25, 3), (0, 0)), mode, **extra)  # wider than the picture
for h, w, up in ((32, 32, 1), (20, 64, 1), (64, 64, 0), (10, 40, 0)):
    out[f"letterbox/{h}x{w}/{up}"] = ultralytics_letterbox(a, h, w, bool(up), 114)
out["gray/pillow"] = array(image(a).convert("L"), 1)
out["gray/opencv"] = cv2.cvtColor(a, cv2.COLOR_RGB2GRAY)[..., None]
mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
out["normalize/imagenet"] = (a.astype(np.float32) / np.float32(255) - mean) / std
out["normalize/chw"] = np.ascontiguousarray(out["normalize/imagenet"].transpose(2, 0, 1)[None])
logits = rng.normal(0, 4, (2, 5, 3)).astype(np.float32)
out["logits"] = logits
for axis in (1, 2):
    e = np.exp(logits.astype(np.float64) - logits.max(axis, keepdims=True))
    out[f"softmax/{axis}"] = (e / e.sum(axis, keepdims=True)).astype(np.float32)
edge = np.float32([0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, 300, -300, 65504, 65519.9, 65520, 1e-8, 6e-8, 3e-5, 6.1e-5, 1e30,
                   0.1, 1 / 3, 2049, 2051, np.inf, -np.inf])
out["cast/in"] = edge
with np.errstate(over="ignore"):
    out["cast/f16"] = edge.astype(np.float16)
    out["cast/u8"] = np.clip(np.rint(edge), 0, 255).astype(np.uint8)
    out["cast/i8"] = np.clip(np.rint(edge), -128, 127).astype(np.int8)
np.savez_compressed(HERE / "expected.npz", **out)
versions = {"pillow": PIL.__version__, "numpy": np.__version__, "opencv": cv2.__version__, "python": sys.version.split()[0]}
(HERE / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")
