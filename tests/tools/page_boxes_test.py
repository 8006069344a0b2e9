"""Text boxes and parts of pictures against OpenCV and Clipper, on maps and pictures of a seed. Without numpy, opencv-python-headless and pyclipper the
comparison is skipped; tests/unit/pipeline/page_test.cpp has some results of theirs.

    page_boxes_test.py BIN [--pages N] [--seed N]
"""
import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
try:
    import cv2
    import numpy as np
    import page_reference as page
except ImportError as missing:
    print(f"skipped: a comparison with OpenCV and Clipper, for there is no module {missing.name}")
    sys.exit(0)


def same_boxes(program, folder, rng, kind, counts):
    """A random page: its boxes, and the size of the picture."""
    h, w = (int(n) for n in rng.integers(20, 300, 2))
    scores = page.page(rng, h, w, kind)
    size = (h, w) if rng.random() < 0.4 else (int(h * (rng.random() * 2 + 0.3)) + 1, int(w * (rng.random() * 2 + 0.3)) + 1)
    options = [0.3, float(rng.choice([0.3, 0.5, 0.6])), float(rng.choice([1.5, 1.6, 2.0])), 3, 50 if kind == "noise" else int(rng.choice([5, 1000]))]
    np.save(folder / "map.npy", scores)
    subprocess.run([program, "boxes", folder / "map.npy", *map(str, size), *map(str, options), folder / "boxes.npz"], check=True)
    found = np.load(folder / "boxes.npz")
    boxes, means, doubtful = page.text_boxes(scores, size, *options)
    if doubtful:
        counts["pages left out, for the rounding of floats decides"] += 1
    elif found["corners"].shape != boxes.shape or (found["corners"] != boxes).any() or (len(means) and abs(found["scores"] - means).max() > 0.1):
        counts["pages that differ"] += 1
        print(f"FAIL  {kind} {h} x {w}, {options}: found {found['corners'].tolist()}, expected {boxes.tolist()}")
    counts["boxes"] += 0 if doubtful else len(boxes)
    return boxes, size


def same_parts(program, folder, rng, boxes, size, counts):
    picture = rng.integers(0, 256, (*size, int(rng.choice([1, 3, 4])))).astype(np.uint8)
    quads = (boxes + rng.normal(size=boxes.shape) * 3 * (rng.random() < 0.6)).astype(np.float32)
    np.save(folder / "picture.npy", picture)
    np.save(folder / "quads.npy", quads)
    upright = bool(rng.random() < 0.8)
    subprocess.run([program, "cut", folder / "picture.npy", folder / "quads.npy", str(int(upright)), folder / "parts.npz"], check=True)
    found = np.load(folder / "parts.npz")
    for i, quad in enumerate(quads):
        part = page.cut(picture, quad, upright)
        if part is None:
            counts["parts that OpenCV does not have"] += 1
            continue
        if found[str(i)].shape != part.shape:
            counts["parts of another size"] += 1
            continue
        off = abs(found[str(i)].astype(int) - part.astype(int))
        counts["bytes"] += off.size
        counts["bytes that differ"] += int((off > 0).sum())
        counts["largest difference"] = max(counts["largest difference"], int(off.max()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--pages", type=int, default=140)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    rng = np.random.default_rng(a.seed)
    counts = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="mlc-page-") as name:
        for i in range(a.pages):
            boxes, size = same_boxes(a.bin / "page_boxes", pathlib.Path(name), rng, page.KINDS[i % len(page.KINDS)], counts)
            if len(boxes):
                same_parts(a.bin / "page_boxes", pathlib.Path(name), rng, boxes, size, counts)
    for what, count in counts.items():
        print(f"{what}: {count}")
    # OpenCV 5 has another interpolation, without places of 1/32 of a pixel.
    exact = int(cv2.__version__.split(".")[0]) < 5
    wrong = counts["pages that differ"] + counts["parts of another size"] + (counts["bytes that differ"] if exact else counts["largest difference"] > 16)
    return 1 if wrong else 0


sys.exit(main())
