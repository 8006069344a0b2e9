"""Whether what runs on the card is right: failures that are made on purpose, golden vectors, node tests."""
import math
import re

import templates
from lab import Failed, Skip


def failures(lab, devices):
    """Images that are wrong, memory that is short, a device that is lost: each in a process of its own, and the next one works."""
    for device in devices.values():
        for kind in ("image", "memory", "lost"):
            what = f"failure {kind}, {device.api}"
            answer = lab.part(what, lab.json, what, [lab.bin / "bench_device", "--api", device.api, "--fail", kind], 60)
            if answer and "skipped" in answer:
                lab.skip(what, answer["skipped"])
            elif answer:
                lab.results.setdefault("answers", {})[what] = answer["answers"]


def build(lab, model, targets, name, seconds, golden=0):
    """A container of an ONNX file."""
    path = lab.out / "models" / f"{name}.mlc"
    lab.run(f"build {name}", [lab.bin / "mlpack", "build", model, "-o", path, "-f", "--no-sign", "--no-selftest", "--progress", "none", "--golden-time", golden, "--cubin", "none",
                              "--target", ",".join(targets)], seconds)
    return path


def golden(lab, devices):
    """Every variant on its device answers a golden vector as the reference does."""
    models = [(template.name, templates.write(lab, template, small=True)) for template in templates.ALL]
    models += [(path.stem, path) for path in lab.options.model]
    targets = [t for d in devices.values() for t in d.targets()]
    rows = lab.results.setdefault("golden", [])
    for name, model in models:
        lab.part(f"golden vectors, {name}", golden_of_one, lab, name, model, targets, rows)
    if not rows:
        raise Skip("no model in this time")


def golden_of_one(lab, name, model, targets, rows):
    container = build(lab, model, [*targets, "native"], f"golden-{name}", 300, golden=20)
    names = ",".join(["gpu", "cpu"])
    answer = lab.json(f"selftest {name}", [lab.bin / "mlrun", "selftest", container, "--allow-unsigned", "--time-limit", "none", "--memory-limit", "none", "--devices", names,
                                           "--json"], 300, codes=(0, 1, 6, 7))
    tested = {v["name"]: v for v in answer["variants"]}
    for target in targets:
        if target not in tested or "device" not in tested[target]:
            lab.fail(f"golden vectors, {name}, {target}", tested.get(target, {}).get("reason", "it was not tested"))
            continue
        rows.append({"model": name, "target": target, "answer": tested[target]["answer"], "max_rel": tested[target].get("max_rel")})
        if tested[target]["answer"] != "ok":
            lab.fail(f"golden vectors, {name}, {target}", tested[target].get("text", tested[target]["answer"]))


LINE = re.compile(r"^(\S+) (\S+) +(\d+) passed, (\d+) failed, (\d+) known differences, (\d+) unsupported, (\d+) on the host", re.M)
CASES = 1072  # of the set of Debian's package, which the estimate goes by


def conformance(lab, devices):
    """Node tests by the card's drivers. A few first, to see how many fit the time."""
    for device in devices.values():
        lab.part(f"node tests, {device.api}", conformance_of, lab, device)


def conformance_of(lab, device):
    paths = [word for target in device.targets() for word in ("--path", f"{target}:device")]
    command = [lab.bin / "onnx_node_tests", *paths, *(["--jobs", "1"] if device.slow else [])]
    every, seconds = 1, lab.left() - 1
    if not lab.options.whole:
        few = 268
        text = lab.run(f"node tests {device.api}", [*command, "--every", few], lab.left() * 0.2)
        took = float(re.search(r"processes: ([\d.]+) s", text)[1]) / (CASES // few)
        seconds = lab.left() * 0.25
        every = max(1, math.ceil(CASES * max(took, 0.001) * 1.5 / seconds))
        every = min(every, few)
    text = lab.run(f"node tests {device.api}", [*command, "--every", every], seconds, codes=(0, 1))
    rows = [dict(zip(("set", "path", "passed", "failed", "known", "unsupported", "on_host"), m.groups())) for m in LINE.finditer(text)]
    if not rows:
        raise Failed("no table of results")
    for row in rows:
        lab.results.setdefault("conformance", []).append({**row, "every": every})
        if int(row["failed"]):
            lab.fail(f"node tests, {row['path']}", f"{row['failed']} of them")
