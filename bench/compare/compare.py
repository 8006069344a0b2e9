#!/usr/bin/env python3
"""Whole models against ONNX Runtime and OpenVINO on this machine, interleaved.

    compare.py --bin build/release/bin --out DIR [--before BIN] [--threads 1 2] [--rounds 5] [--seconds 1] [--set models|recurrent] [--only WORDS]
               [--work DIR] [--start] [--busy] [--lengths] [--no-times]

Every runtime is a process of its own, pinned to as many CPUs as it has threads. All get the same inputs; outputs are compared
before anything is timed. In every round each runs for the same time, one after the other, in turns; halfway all begin anew, with
copies of the containers. --start, --busy and --lengths
add what states.py measures; --no-times leaves all else out. --before takes the programs of another checkout of this project, which
build and run the same models in the same turns. Writes DIR/results.json,
DIR/README.md (tables) and DIR/page.html (plots). Needs onnx, onnxruntime, openvino and numpy (PyPI), and what the wheel of
bindings/python needs.
"""
import argparse
import collections
import compileall
import json
import math
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import onnx

import cases
import process
import report
import states

HERE = pathlib.Path(__file__).resolve().parent
PEERS = ("mlrt", "onnxruntime", "openvino")
PLACEMENTS = 2  # of processes and containers, which share the rounds


def is_newer(file, than):
    return file.exists() and file.stat().st_mtime > than.stat().st_mtime


def package(bin_folder, work):
    """The Python package of a build in a checkout, unpacked."""
    folder, bindings = work / "package", bin_folder.parents[2] / "bindings/python"
    parts = [bin_folder.parent / "lib/libmlrt.so", *bindings.glob("*/*.[pch]*")]
    if not all(is_newer(folder, part) for part in parts):
        shutil.rmtree(folder, ignore_errors=True)
        done = subprocess.run([bindings / "build_wheel.sh", "--libraries", bin_folder.parent / "lib", "--out", work],
                              env=os.environ | {"PYTHON": sys.executable}, stdout=subprocess.PIPE, text=True, check=True)
        with zipfile.ZipFile(done.stdout.strip()) as wheel:
            wheel.extractall(folder)
        compileall.compile_dir(folder, quiet=1)  # as pip does, which installed the others
    return folder


def drawn_inputs(path, dims):
    """Arrays for all inputs: normal numbers, token ids, and masks that hide nothing."""
    random, arrays = np.random.default_rng(5), {}
    graph = onnx.load(str(path), load_external_data=False).graph
    constants = {w.name for w in graph.initializer}
    for port in graph.input:
        if port.name in constants:
            continue
        tensor = port.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else dims.get(d.dim_param, 1) for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.floating):
            arrays[port.name] = random.standard_normal(shape).astype(dtype)
        elif "mask" in port.name or dtype == np.bool_:
            arrays[port.name] = np.ones(shape, dtype)
        else:
            arrays[port.name] = random.integers(0, 200, shape).astype(dtype)
    return arrays


class Peer(process.Process):
    """One that is asked again and again."""

    def __init__(self, kind, model, inputs, threads, packages):
        super().__init__("mlrt" if kind == "before" else kind, model, inputs, threads, packages, sorted(os.sched_getaffinity(0))[:threads])
        self.rounds = []
        self.facts = self.reply()


def difference(ours, theirs):
    """The largest, relative to the largest value of its output; None where outputs cannot be compared."""
    worst = 0.0
    for name in ours:
        if name not in theirs or ours[name].shape != theirs[name].shape:
            return None
        a, b = (np.asarray(x[name], np.float64) for x in (ours, theirs))
        if a.size:
            worst = max(worst, float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)))
    return worst


def built(path, bin_folder, work):
    """The container of a model."""
    container = work / f"{path.stem}.mlc"
    if not is_newer(container, bin_folder / "mlpack"):
        subprocess.run([bin_folder / "mlpack", "build", path, "-o", container, "--target", "native", "--progress", "none"], check=True,
                       stdout=subprocess.DEVNULL)
    return container


def prepared(case, args, work):
    """(ONNX file, container, inputs) of a case; None where its source is missing."""
    path = cases.model_file(case, work)
    if path is None:
        return None
    inputs = work / "inputs.npz"
    np.savez(inputs, **drawn_inputs(path, dict(case.dims)))
    return path, built(path, args.bin, work), inputs


def measured_states(case, args, files, packages):
    """What --start, --busy and --lengths ask for."""
    path, container, inputs = files
    models = {kind: container if kind == "mlrt" else path for kind in PEERS}
    row = {"case": case.name, "family": case.family}
    if args.start:
        row["start"] = states.start(models, inputs, args.threads[0], args.rounds, packages)
    if args.busy:
        row["busy"] = states.scaling(models, inputs, args.rounds, args.seconds, packages, busy=True)
    if args.lengths and cases.has_lengths(case):
        row["idle"] = states.scaling(models, inputs, args.rounds, args.seconds, packages, busy=False)
    return row


def placed_anew(container):
    """Weights are read where the system keeps the file: which lines of a cache its pages share is chance, stays as it is, and was 20 % of a recurrent layer."""
    copy = container.with_suffix(".copy")
    shutil.copyfile(container, copy)
    copy.replace(container)


def compare(case, threads, args, files, work, packages):
    path, container, inputs = files
    row = {"case": case.name, "family": case.family, "threads": threads, "bytes": {"onnx": path.stat().st_size, "mlc": container.stat().st_size}}
    models = {"mlrt": container} | {k: path for k in PEERS[1:]}
    if args.before:
        models["before"] = built(path, args.before, args.before_work)
    facts, rounds = {}, collections.defaultdict(list)
    for placement in range(PLACEMENTS):
        for container in (model for kind, model in models.items() if kind in ("mlrt", "before")):
            placed_anew(container)
        peers = opened(models, inputs, threads, args, packages, work, row)
        if not placement:
            row["difference"] = {k: difference(peers["mlrt"].answer, p.answer) for k, p in peers.items() if k in PEERS[1:] and "mlrt" in peers}
        order = list(peers)
        for turn in range(math.ceil(args.rounds / PLACEMENTS)):
            for kind in order[turn % len(order):] + order[:turn % len(order)]:
                rounds[kind].append(peers[kind].ask(seconds=args.seconds))
        for kind, peer in peers.items():
            facts.setdefault(kind, peer.facts)
            peer.end()
    for kind, of_kind in rounds.items():
        row[kind] = {name: fact for name, fact in facts[kind].items() if name != "package"} | {"min_ms": min(r["min_ms"] for r in of_kind), "median_ms": float(np.median([r["median_ms"] for r in of_kind]))}
    return row


def opened(models, inputs, threads, args, packages, work, row):
    """Processes that have run once, with their answers; why others do not stands in the row."""
    peers = {}
    for kind, model in models.items():
        try:
            peers[kind] = Peer(kind, model, inputs, threads, args.before_packages if kind == "before" else packages)
            answer = work / f"{kind}.npz"
            peers[kind].facts |= peers[kind].ask(answer=str(answer))
            with np.load(answer) as file:
                peers[kind].answer = dict(file)
        except RuntimeError as why:
            row.setdefault("failures", {})[kind] = str(why)
            peers.pop(kind, None)
    return peers


def machine():
    with open("/proc/cpuinfo") as file:
        name = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    return f"{name}, {len(os.sched_getaffinity(0))} CPUs, Linux {platform.release()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--before", type=pathlib.Path, help="programs of another checkout, compared in the same turns")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/compare"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--start", action="store_true", help="also fresh processes: time to the first answer, memory, files")
    parser.add_argument("--busy", action="store_true", help="also two threads against one beside a busy process")
    parser.add_argument("--lengths", action="store_true", help="also two threads over one, of cases that have several lengths")
    parser.add_argument("--no-times", dest="times", action="store_false", help="nothing but these")
    parser.add_argument("--set", choices=cases.SETS, default="models", help="whole models, or recurrent layers by size and batch")
    parser.add_argument("--only", nargs="+", default=[], help="cases whose names hold one of these words")
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    args.bin = args.bin.resolve()
    packages = package(args.bin, work)
    if args.before:
        args.before, args.before_work = args.before.resolve(), work / "before"
        args.before_work.mkdir(exist_ok=True)
        args.before_packages = package(args.before, args.before_work)
    rows, further, missing = [], [], []
    chosen = [case for case in cases.SETS[args.set] if not args.only or any(word in case.name for word in args.only)]
    if not chosen:
        parser.error(f"no case has {' or '.join(args.only)} in its name; they are: " + ", ".join(case.name for case in cases.SETS[args.set]))
    for case in chosen:
        files = prepared(case, args, work)
        if files is None:
            missing.append(case.name)
            continue
        for threads in args.threads if args.times else []:
            row = compare(case, threads, args, files, work, packages)
            rows.append(row)
            print(report.line(row), flush=True)
        if args.start or args.busy or args.lengths:
            further.append(measured_states(case, args, files, packages))
            print(report.states_line(further[-1]), flush=True)
    options = f"--threads {' '.join(map(str, args.threads))} --rounds {args.rounds} --seconds {args.seconds:g}" + (" --before BIN" if args.before else "") + "".join(
        f" --{flag}" for flag in ("start", "busy", "lengths") if getattr(args, flag)) + ("" if args.times else " --no-times") + (
        f" --only {' '.join(args.only)}" if args.only else "") + ("" if args.set == "models" else f" --set {args.set}")
    results = {"machine": machine(), "command": f"bench/compare/compare.py {options}", "missing": missing, "rows": rows, "states": further}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.out / "README.md").write_text(report.table(results))
    (args.out / "page.html").write_text(report.page(results))


if __name__ == "__main__":
    main()
