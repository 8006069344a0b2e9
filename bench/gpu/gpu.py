#!/usr/bin/env python3
"""What the card of this machine does with everything of ours that runs on it: bench/gpu/README.md."""
import argparse
import os
import pathlib
import sys

import checks
import devices
import peers
import report
import speed
from lab import Lab, newest
from prepare import KIND_OF_STEP, SOURCES, Prepared, prepare

HERE = pathlib.Path(__file__).resolve().parent
# What one wants to know first; what may end the card's service comes last.
STEPS = ("build", "probe", "golden", "ceilings", "templates", "nets", "peers", "sanitizer", "counters", "start", "conformance", "failures")


def model_of(text):
    path, _, dims = text.partition("@")
    return pathlib.Path(path), dims.split(",") if dims else []


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="bench/gpu.sh", description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, help="built programs; default: build/release/bin, which is built first, or those of --from")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the results (default: bench/gpu/results/DATE)")
    parser.add_argument("--prepare", type=pathlib.Path, metavar="DIR", help="make all that a card needs in this folder, and measure nothing")
    parser.add_argument("--from", dest="source", type=pathlib.Path, metavar="DIR", help="a folder that --prepare made: no compiler is needed then")
    parser.add_argument("--minutes", type=float, default=10, help="for everything together (default 10); what does not fit is skipped")
    parser.add_argument("--only", default=",".join(STEPS), help=f"steps, separated by commas: {', '.join(STEPS)}")
    parser.add_argument("--every", type=int, default=3, help="one of so many node tests (default 3)")
    parser.add_argument("--target", default=",".join(t for of_api in devices.TARGETS.values() for t in of_api), help="of the containers (default %(default)s)")
    parser.add_argument("--software", action="store_true", help="measure devices in software, too, beside a card")
    parser.add_argument("--model", type=model_of, action="append", default=[], dest="models", metavar="FILE[@N=1,T=128]", help="this ONNX file, too, with its free extents")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch and ONNX Runtime")
    options = parser.parse_args(arguments)
    options.targets = options.target.split(",")
    options.steps = options.only.split(",")
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"--only {', '.join(sorted(unknown))}: expected {', '.join(STEPS)}")
    if options.prepare and options.source:
        parser.error("--prepare and --from: one makes the folder, the other uses it")
    options.is_built = options.bin is not None or options.source is not None
    options.bin = (options.bin or (options.source / "bin" if options.source else HERE.parents[1] / "build" / "release" / "bin")).resolve()
    options.out = options.prepare or options.out or newest(HERE / "results")
    options.slow = False
    return options


def build(lab):
    if lab.options.is_built:
        return
    root = HERE.parents[1]
    lab.say("building")
    lab.run("build", ["cmake", "--preset", "release", "-S", root], 120)
    lab.run("build", ["cmake", "--build", root / "build" / "release", "--target", "mlpack", "mlrun", "bench_device", "bench_device_modules", "--parallel", os.cpu_count() or 1],
            lab.left() * 0.6)


def kinds(lab):
    """Of containers that the wanted steps use."""
    used = {KIND_OF_STEP[step] for step in lab.options.steps if step in KIND_OF_STEP}
    return [kind for kind in SOURCES if kind in used]


def measure(lab):
    """Steps in their order; each gets what time the ones before it have left."""
    wanted = lab.options.steps
    if "build" in wanted:
        lab.part("build", build, lab)
    found = lab.part("devices", devices.probe, lab)
    if not found:
        return
    lab.options.slow = not lab.options.source and any(d.slow for d in found.values())
    if lab.options.source:
        prepared = lab.part("prepared", Prepared, lab.options.source.resolve())
        for device in found.values() if prepared else ():
            device.made = prepared.targets
    else:
        prepared = lab.part("prepare", prepare, lab, lab.out, kinds(lab))
    if not prepared:
        return
    steps = {"golden": checks.golden, "ceilings": speed.ceilings, "templates": speed.all_templates, "nets": speed.nets, "peers": peers.peers, "sanitizer": checks.sanitizer,
             "counters": speed.counters, "start": speed.start, "conformance": checks.conformance, "failures": checks.failures}
    for name in STEPS:
        if name in wanted and name in steps:
            lab.say(f"{name} ({lab.left():.0f} s left)")
            lab.part(name, steps[name], lab, found, prepared)


def main():
    lab = Lab(options_of(sys.argv[1:]))
    if lab.options.prepare:
        lab.part("build", build, lab)
        lab.part("prepare", prepare, lab, lab.out, kinds(lab))
        return lab.finish("")
    measure(lab)
    return lab.finish(report.table(lab.results))


if __name__ == "__main__":
    sys.exit(main())
