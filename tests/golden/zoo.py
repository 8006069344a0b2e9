#!/usr/bin/env python3
"""Larger models against ONNX Runtime of the same machine: agreement in every variant, speed, time to open, size.

    zoo.py --bin build/release/bin --models DIR [--model NAME ...] [--markdown OUT] [--seconds 3]

DIR holds NAME.onnx. Not part of test.sh: needs `pip install onnxruntime numpy` and some minutes. Times are of one thread, the
fastest run of each program in turn (other work on the machine only ever slows a run down). The container holds five CPU
targets, and its size is compared with that of one target.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

TARGETS = "x86-64-v2,x86-64-v3,x86-64-v4,armv8-a,rv64gc"
TOLERANCE = 1e-3  # of the largest output
# Free extents by case; models without free extents have the one case {}.
CASES = {"resnet50": [{}], "mobilenet_v2": [{"N": 1}, {"N": 3}],
         "minilm_l6": [{"batch": 1, "sequence": 128}, {"batch": 1, "sequence": 7}, {"batch": 3, "sequence": 33}]}


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def reference(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def inputs_of(session, extents):
    rng = np.random.default_rng(1)
    made = {}
    for port in session.get_inputs():
        shape = [d if isinstance(d, int) else extents[d] for d in port.shape]
        if "int" in port.type:
            made[port.name] = rng.integers(0, 2 if "mask" in port.name else 1000, shape).astype(port.type[7:-1])
            if "mask" in port.name:
                made[port.name][..., 0] = 1  # a row of zeros has no softmax
        else:
            made[port.name] = rng.standard_normal(shape).astype(np.float32)
    return made


def worst_of(names, want, answer):
    worst = 0.0
    with np.load(answer) as found:
        for name, expected in zip(names, want):
            have = found[name]
            if have.shape != expected.shape or not np.isfinite(have).all():
                raise RuntimeError(f"{name}: found {have.shape}, expected {expected.shape}, or not finite")
            worst = max(worst, float(np.abs(have - expected).max() / np.abs(expected).max()))
    return worst


def fastest(session, given, seconds):
    session.run(None, given)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        session.run(None, given)
        times.append(time.perf_counter() - begin)
    return min(times)


class Check:
    def __init__(self, args, work):
        self.args, self.work, self.rows = args, work, []
        self.mlpack, self.mlrun = (os.path.join(args.bin, tool) for tool in ("mlpack", "mlrun"))
        self.failed = self.passed = 0

    def build(self, source, name, targets):
        container = os.path.join(self.work, name + ".mlc")
        begin = time.perf_counter()
        run([self.mlpack, "build", source, "-o", container, "--target", targets])
        return container, time.perf_counter() - begin

    def agreement(self, model, container, session):
        """{variant: worst relative difference of all cases}, and the .npz of the first case."""
        variants = [v["name"] for v in json.loads(run([self.mlrun, "explain", container, "--json"]))["variants"]
                    if v["answer"] == "fits" and v["name"] != "portable"]
        names = [port.name for port in session.get_outputs()]
        worst, first = dict.fromkeys(variants, 0.0), None
        for k, extents in enumerate(CASES.get(model, [{}])):
            given = inputs_of(session, extents)
            want = session.run(None, given)
            npz = os.path.join(self.work, f"{model}.{k}.npz")
            np.savez(npz, **given)
            first = first or (npz, given)
            for variant in variants:
                answer = os.path.join(self.work, "out.npz")
                run([self.mlrun, container, "--raw", "-i", npz, "-o", answer, "--variant", variant])
                worst[variant] = max(worst[variant], worst_of(names, want, answer))
        return worst, first

    def bench(self, container, npz, variant):
        command = [self.mlrun, "bench", container, "--raw", "-i", npz, "--threads", 1, "--variant", variant,
                   "--duration", f"{self.args.seconds}s", "--json"]
        return json.loads(run(command))

    def opening(self, container):
        """The fastest of ten, file in the page cache: what opening costs where nothing else runs."""
        command = [self.mlrun, "bench", container, "-i", "zeros", "--raw", "--duration", "0s", "--warmup", "0s", "--json"]
        return min(json.loads(run(command))["open_ns"] for _ in range(10))

    def model(self, name):
        source = os.path.join(self.args.models, name + ".onnx")
        session = reference(source)
        container, seconds = self.build(source, name, TARGETS)
        one, _ = self.build(source, name + "-one", "x86-64-v3")
        worst, (npz, given) = self.agreement(name, container, session)
        growth = os.path.getsize(container) / os.path.getsize(one) - 1
        opening = self.opening(container)
        ours, theirs = dict.fromkeys(worst, 1e9), 1e9
        for _ in range(3):
            theirs = min(theirs, fastest(session, given, self.args.seconds))
            for variant in worst:
                ours[variant] = min(ours[variant], self.bench(container, npz, variant)["latency_ns"]["min"] / 1e9)
        for variant, difference in worst.items():
            good = difference <= TOLERANCE
            self.passed, self.failed = self.passed + good, self.failed + (not good)
            row = [name, variant, f"{difference:.1e}", f"{ours[variant] * 1e3:.1f}", f"{theirs * 1e3:.1f}", f"{ours[variant] / theirs:.2f}",
                   f"{opening / 1e6:.1f}", f"{os.path.getsize(container) / 1e6:.1f}", f"{growth * 100:.1f} %", f"{seconds:.0f}"]
            print(("ok     " if good else "FAILED ") + "  ".join(row), flush=True)
            self.rows.append(row)


def markdown(rows, path):
    head = ["model", "variant", "difference", "ms", "ONNX Runtime, ms", "ratio", "open, ms", "MB", "five targets over one", "build, s"]
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    with open(path, "w") as out:
        out.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--model", nargs="*", default=list(CASES))
    parser.add_argument("--markdown")
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = os.environ["XDG_CACHE_HOME"] = os.path.join(work, "home")
        check = Check(args, work)
        for name in args.model:
            try:
                check.model(name)
            except RuntimeError as error:
                print(f"FAILED {name}: {error}")
                check.failed += 1
        if args.markdown:
            markdown(check.rows, args.markdown)
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
