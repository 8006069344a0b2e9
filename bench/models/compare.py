#!/usr/bin/env python3
"""Whole models against ONNX Runtime on this machine, interleaved.

    compare.py --bin build/release/bin MODEL.onnx ... [--threads 1] [--rounds 5] [--seconds 2] [--dim NAME=N ...]

In every round each runtime gets the same model and the same inputs for the same time, one after the other; printed are the
least time of all rounds and the median of the rounds' medians, and the median over rounds of the paired ratio ours / ORT.
Outputs are compared before anything is timed. Needs onnxruntime and numpy (PyPI).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort


def inputs_of(session, dims, rng):
    arrays = {}
    for port in session.get_inputs():
        shape = [d if isinstance(d, int) else dims.get(d, 1) for d in port.shape]
        if port.type == "tensor(float)":
            arrays[port.name] = rng.standard_normal(shape).astype(np.float32)
        elif port.type == "tensor(int64)":
            arrays[port.name] = rng.integers(0, 2, shape, dtype=np.int64)
        elif port.type == "tensor(int32)":
            arrays[port.name] = rng.integers(0, 2, shape, dtype=np.int32)
        else:
            raise SystemExit(f"{port.name}: {port.type} is not drawn here")
    return arrays


def ort_session(path, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def time_ort(session, arrays, seconds):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        session.run(None, arrays)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3, statistics.median(times) * 1e3


def time_ours(mlrun, container, given, threads, seconds, variant):
    command = [mlrun, "bench", container, "-i", given, "--raw", "--duration", f"{seconds}s", "--warmup", "0.3s", "--threads", str(threads), "--json"]
    if variant:
        command += ["--variant", variant]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return answer["latency_ns"]["min"] / 1e6, answer["latency_ns"]["p50"] / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--bin", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--dim", nargs="*", default=[])
    parser.add_argument("--variant")
    args = parser.parse_args()
    mlpack, mlrun = (os.path.join(args.bin, t) for t in ("mlpack", "mlrun"))
    dims = {k: int(v) for k, v in (d.rsplit("=", 1) for d in args.dim)}
    print(f"{'model':24} {'ours min':>9} {'median':>9} {'ORT min':>9} {'median':>9}  ms   ours/ORT   difference")
    for path in args.models:
        name = os.path.basename(path)[:-5]
        session = ort_session(path, args.threads)
        arrays = inputs_of(session, dims, np.random.default_rng(7))
        with tempfile.TemporaryDirectory() as work:
            container, given, answer = (os.path.join(work, f) for f in ("m.mlc", "in.npz", "out.npz"))
            subprocess.run([mlpack, "build", path, "-o", container, "--target", args.variant or "native"], check=True, capture_output=True)
            np.savez(given, **arrays)
            subprocess.run([mlrun, "run", container, "--raw", "-i", given, "-o", answer], check=True, capture_output=True)
            expected = session.run(None, arrays)
            with np.load(answer) as found:
                worst = max(float(np.abs(found[o.name] - e).max() / max(float(np.abs(e).max()), 1e-30)) for o, e in zip(session.get_outputs(), expected))
            ours, theirs = [], []
            for _ in range(args.rounds):
                ours.append(time_ours(mlrun, container, given, args.threads, args.seconds, args.variant))
                theirs.append(time_ort(session, arrays, args.seconds))
        ratio = statistics.median(o[1] / t[1] for o, t in zip(ours, theirs))
        print(f"{name:24} {min(o[0] for o in ours):9.2f} {statistics.median(o[1] for o in ours):9.2f} "
              f"{min(t[0] for t in theirs):9.2f} {statistics.median(t[1] for t in theirs):9.2f}       {ratio:8.2f}   {worst:.1e}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
