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

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = ("build", "probe", "failures", "ceilings", "templates", "start", "golden", "conformance", "peers")


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="bench/gpu.sh", description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, help="built programs; default: build/release/bin, which is built first")
    parser.add_argument("--out", type=pathlib.Path, default=newest(ROOT / "bench" / "gpu" / "results"), help="folder of the results (default: bench/gpu/results/DATE)")
    parser.add_argument("--minutes", type=float, default=10, help="for everything together (default 10); what does not fit is skipped")
    parser.add_argument("--only", default=",".join(STEPS), help=f"steps, separated by commas: {', '.join(STEPS)}")
    parser.add_argument("--whole", action="store_true", help="all node tests, however long they take")
    parser.add_argument("--software", action="store_true", help="measure devices in software, too, beside a card")
    parser.add_argument("--model", type=pathlib.Path, action="append", default=[], help="golden vectors of this ONNX file, too")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch and ONNX Runtime")
    options = parser.parse_args(arguments)
    options.steps = options.only.split(",")
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"--only {', '.join(sorted(unknown))}: expected {', '.join(STEPS)}")
    options.is_built = options.bin is not None
    options.bin = (options.bin or ROOT / "build" / "release" / "bin").resolve()
    return options


def build(lab):
    if lab.options.is_built:
        return
    lab.say("building")
    lab.run("build", ["cmake", "--preset", "release", "-S", ROOT], 120)
    lab.run("build", ["cmake", "--build", ROOT / "build" / "release", "--target", "mlpack", "mlrun", "onnx_node_tests", "bench_device", "--parallel", os.cpu_count() or 1],
            lab.left() * 0.6)


def measure(lab):
    """Steps in the order of what one wants to know first; each gets what time the ones before it have left."""
    wanted = lab.options.steps
    if "build" in wanted:
        lab.part("build", build, lab)
    found = lab.part("devices", devices.probe, lab)
    if not found:
        return
    steps = {"failures": lambda: checks.failures(lab, found), "templates": lambda: speed.all_templates(lab, found, lab.results.get("ceilings", {})),
             "ceilings": lambda: speed.ceilings(lab, found), "start": lambda: speed.start(lab, found), "golden": lambda: checks.golden(lab, found),
             "conformance": lambda: checks.conformance(lab, found), "peers": lambda: peers.peers(lab, found)}
    for name in STEPS:
        if name in wanted and name in steps:
            lab.say(f"{name} ({lab.left():.0f} s left)")
            lab.part(name, steps[name])


def main():
    lab = Lab(options_of(sys.argv[1:]))
    measure(lab)
    return lab.finish(report.table(lab.results))


if __name__ == "__main__":
    sys.exit(main())
