#!/usr/bin/env python3
"""Single operators against ONNX Runtime, one thread: a table of least times.

    operators.py CASES [--only TEXT]... [--bin DIR] [--target NAME] [--rounds N] [--table FILE]

CASES: folders as those of ONNX's node tests (NAME/model.onnx, NAME/test_data_set_0/input_K.pb), as
tests/conformance/report_cases.py makes them. Both run in turns, so that what else the machine does meets both. Needs numpy, onnx and
onnxruntime. Exit code 1 if a case is slower than ONNX Runtime or is not built.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplementedThere

SECONDS = 0.4  # of one side in one round


def feeds_of(folder, model):
    constants = {t.name for t in model.graph.initializer}
    feeds = {}
    for at, port in enumerate(p for p in model.graph.input if p.name not in constants or model.ir_version >= 4):
        path = folder / "test_data_set_0" / f"input_{at}.pb"
        if path.exists():
            feeds[port.name] = numpy_helper.to_array(onnx.load_tensor(str(path)))
    return feeds


def save(path, feeds):
    """Strings as UTF-32, which needs no pickle."""
    np.savez(path, **{name: a.astype(str) if a.dtype == object else a for name, a in feeds.items()})


class Theirs:
    def __init__(self, path, feeds):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.feeds = feeds
        self.session.run(None, feeds)

    def least(self):
        end, best = time.time() + SECONDS, float("inf")
        while time.time() < end:
            start = time.perf_counter()
            self.session.run(None, self.feeds)
            best = min(best, time.perf_counter() - start)
        return best


def ours(o, container, inputs):
    done = subprocess.run([o.bin / "mlrun", "bench", container, "--raw", "-i", inputs, "--threads", "1", "--duration", f"{SECONDS}s", "--json",
                           "--time-limit", "none", "--memory-limit", "none"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-200:])
    return json.loads(done.stdout)["latency_ns"]["min"] / 1e9


def measure(o, folder, work):
    """Seconds of the build, of us, of ONNX Runtime (None: it has no such kernel)."""
    container, inputs = work / "m.mlc", work / "in.npz"
    start = time.time()
    built = subprocess.run([o.bin / "mlpack", "build", folder / "model.onnx", "--target", o.target, "-o", container, "--force"], capture_output=True, text=True)
    seconds = time.time() - start
    if built.returncode:
        raise RuntimeError("mlpack: " + built.stderr.strip().splitlines()[0])
    feeds = feeds_of(folder, onnx.load(folder / "model.onnx", load_external_data=False))
    save(inputs, feeds)
    try:
        theirs = Theirs(folder / "model.onnx", feeds)
    except NotImplementedThere:
        theirs = None
    least = [float("inf"), float("inf")]
    for _ in range(o.rounds):
        if theirs:
            least[1] = min(least[1], theirs.least())
        least[0] = min(least[0], ours(o, container, inputs))
    return seconds, least[0], least[1] if theirs else None


def row(name, seconds, own, other):
    if other is None:
        return f"| {name} | {own * 1e3:.3f} | none | | {seconds:.1f} |"
    return f"| {name} | {own * 1e3:.3f} | {other * 1e3:.3f} | {'**' if own > other else ''}{own / other:.2f}{'**' if own > other else ''} | {seconds:.1f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--target", default="native")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--table", type=pathlib.Path)
    o = parser.parse_args()
    rows, slower = [], 0
    with tempfile.TemporaryDirectory() as work:
        for folder in sorted(p.parent for p in o.cases.glob("*/model.onnx")):
            if o.only and not any(text in folder.name for text in o.only):
                continue
            try:
                seconds, own, other = measure(o, folder, pathlib.Path(work))
                rows.append(row(folder.name, seconds, own, other))
                slower += other is not None and own > other
            except RuntimeError as error:
                rows.append(f"| {folder.name} | {error} | | | |")
                slower += 1
            print(rows[-1], flush=True)
    if o.table:
        head = [f"Least times in ms of {o.rounds} rounds of {SECONDS} s each, one thread, ONNX Runtime {onnxruntime.__version__}; seconds of `mlpack build`.", "",
                "| case | ours | ONNX Runtime | ratio | build |", "|---|---|---|---|---|"]
        o.table.write_text("\n".join([*head, *rows, "", f"{len(rows) - slower} of {len(rows)} at most as slow as ONNX Runtime."]) + "\n")
    print(f"{len(rows) - slower} of {len(rows)} at most as slow as ONNX Runtime")
    sys.exit(1 if slower else 0)


main()
