#!/usr/bin/python3
"""Trains the digits net, measures it on fonts it has never seen, writes digits.onnx and accuracy.json.

    ./install.sh && OMP_NUM_THREADS=1 /usr/bin/python3 train.py        (about four minutes on one core)

Seeds are fixed. PyTorch promises equal results only for one version on one kind of CPU, so the committed digits.onnx is
the artefact, and a second training gives an equally good net rather than the same bytes.
"""
import json
import pathlib
import time

import numpy as np
import PIL
import torch
from torch import nn

import data
import fonts

HERE = pathlib.Path(__file__).resolve().parent
EPOCHS = 9
PICTURES_PER_GLYPH = 16  # a new set of them in every epoch
BATCH = 64


def net():
    def block(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    # 28 -> 14 -> 7 -> 3. BatchNorm is folded into the convolutions when the net is exported.
    return nn.Sequential(*block(1, 16), *block(16, 32), *block(32, 48), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(48 * 3 * 3, 64), nn.ReLU(), nn.Linear(64, 10))


def to_input(pictures):
    """As pipeline.json prepares them: one plane, divided by 255."""
    return torch.from_numpy(pictures.astype(np.float32) / np.float32(255))[:, None]


def train(model, paths):
    steps = EPOCHS * (len(paths) * 10 * PICTURES_PER_GLYPH // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(EPOCHS):
        start = time.time()
        pictures, labels = data.make(paths, PICTURES_PER_GLYPH, strength=1.0, seed=1000 + epoch)
        x, y = to_input(pictures), torch.from_numpy(labels)
        order = torch.randperm(len(y))
        model.train()
        total = 0.0
        for i in range(0, len(y) - BATCH + 1, BATCH):
            take = order[i:i + BATCH]
            optimizer.zero_grad()
            loss = loss_of(model(x[take]), y[take])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * BATCH
        print(f"epoch {epoch + 1}/{EPOCHS}: loss {total / len(y):.4f}, {time.time() - start:.1f} s", flush=True)


@torch.no_grad()
def measure(model, paths, per_glyph, strength):
    """Accuracy per family and over all pictures."""
    model.eval()
    families, right, count = {}, 0, 0
    for family in sorted({p.parent.name for p in paths}):
        pictures, labels = data.make([p for p in paths if p.parent.name == family], per_glyph, strength, seed=7)
        hits = int((model(to_input(pictures)).argmax(1).numpy() == labels).sum())
        families[family] = {"pictures": len(labels), "accuracy": round(hits / len(labels), 4)}
        right += hits
        count += len(labels)
    return {"pictures": count, "accuracy": round(right / count, 4), "families": families}


def main():
    torch.manual_seed(2026)
    torch.set_num_threads(1)
    seen = [p for p in fonts.files(fonts.TRAIN) if data.usable(p)]
    unseen = [p for p in fonts.files(fonts.HELD_OUT) if data.usable(p)]
    print(f"{len(seen)} font files to train on, {len(unseen)} held out")
    model = net()
    start = time.time()
    train(model, seen)
    report = {
        "versions": {"torch": torch.__version__, "pillow": PIL.__version__, "numpy": np.__version__},
        "font_files": {"train": len(seen), "held_out": len(unseen)},
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(time.time() - start),
        "held_out_clean": measure(model, unseen, 1, 0.0),
        "held_out_disturbed": measure(model, unseen, 12, 1.0),
        "train_disturbed": {k: v for k, v in measure(model, seen, 2, 1.0).items() if k != "families"},
    }
    (HERE.parent / "accuracy.json").write_text(json.dumps(report, indent=1) + "\n")
    for name in ("held_out_clean", "held_out_disturbed", "train_disturbed"):
        print(f"{name}: {100 * report[name]['accuracy']:.2f} % of {report[name]['pictures']}")
    model.eval()
    torch.onnx.export(model, torch.zeros(2, 1, data.SIZE, data.SIZE), str(HERE.parent / "digits.onnx"), opset_version=13,
                      input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}})


if __name__ == "__main__":
    main()
