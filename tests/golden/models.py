#!/usr/bin/env python3
"""Builds real models and compares what every variant of this host computes with recorded outputs of ONNX Runtime.

    models.py --bin build/release/bin --shared ../shared --examples examples [--model NAME ...] [--tolerance 1e-3]
    models.py ... --target armv8-a --mlrun "qemu-aarch64-static mlrun-aarch64"    the same on another processor

The recorded outputs are `<shared>/models/expected/<model>.<case>.npz` with arrays `in:<name>` and `out:<name>`. Without
that folder every case is reported as skipped. Then a line of text is read through the pipeline of examples/ocr.
Needs python3-numpy.
"""
import argparse
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: golden models (python3-numpy is not installed)")
    sys.exit(0)

MODELS = ["mnist", "ppocr_cls", "ultraface_rfb_320", "ppocr_v4_det", "ppocr_v4_rec"]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def fitting_variants(mlrun, container):
    answer = json.loads(run([*mlrun, "explain", container, "--json"]))
    return [v["name"] for v in answer["variants"] if v["answer"] == "fits"]


def compare(case, mlrun, container, variant, work, tolerance):
    with np.load(case) as arrays:
        inputs = {k[3:]: arrays[k] for k in arrays.files if k.startswith("in:")}
        expected = {k[4:]: arrays[k] for k in arrays.files if k.startswith("out:")}
    given, answer = os.path.join(work, "in.npz"), os.path.join(work, "out.npz")
    np.savez(given, **inputs)
    run([*mlrun, "run", container, "--raw", "-i", given, "-o", answer, "--variant", variant])
    worst = 0.0
    with np.load(answer) as found:
        for name, want in expected.items():
            have = found[name]
            if have.shape != want.shape or have.dtype != want.dtype:
                raise RuntimeError(f"{name}: found {have.dtype}{have.shape}, expected {want.dtype}{want.shape}")
            scale = float(np.abs(want).max()) if want.size else 0.0
            difference = float(np.abs(have.astype(np.float64) - want).max()) if want.size else 0.0
            if not np.isfinite(difference):
                raise RuntimeError(f"{name}: not finite")
            worst = max(worst, difference / scale if scale else difference)
    if worst > tolerance:
        raise RuntimeError(f"differs by {worst:.2e} of the largest output, allowed {tolerance:.0e}")
    return worst


def read_line(mlpack, mlrun, shared, examples, work, target):
    """The recogniser with its pipeline: a picture in, exactly its text out, in every native variant."""
    container = os.path.join(work, "ocr.mlc")
    run([mlpack, "build", os.path.join(shared, "models/ppocr_v4_rec.onnx"), "-o", container, "--target", target,
         "--pipeline", os.path.join(examples, "ocr/pipeline.json")])
    picture = os.path.join(shared, "models/text_line.png")
    found = {None: run([*mlrun, container, "--input", picture])}
    for variant in fitting_variants(mlrun, container):
        if variant != "portable":
            found[variant] = run([*mlrun, container, "--input", picture, "--variant", variant])
    for variant, text in found.items():
        if text != "PORTABLE MODELS 2026\n":
            raise RuntimeError(f"{variant}: {text!r}, expected 'PORTABLE MODELS 2026' and the end of the line")
    return len(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shared", required=True)
    parser.add_argument("--examples", required=True)
    parser.add_argument("--model", nargs="*", help="these alone, without the line of text")
    parser.add_argument("--mlrun", metavar="COMMAND", help="what runs the containers, default mlrun of --bin")
    parser.add_argument("--target", default="x86-64-v2,x86-64-v3,x86-64-v4")
    parser.add_argument("--skip-portable-above", type=int, default=1 << 20, metavar="BYTES",
                        help="largest model file that the portable form is run for")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    args = parser.parse_args()
    mlpack = os.path.join(args.bin, "mlpack")
    mlrun = shlex.split(args.mlrun) if args.mlrun else [os.path.join(args.bin, "mlrun")]
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as work:
        os.environ["XDG_CONFIG_HOME"] = os.path.join(work, "home")
        for model in args.model or MODELS:
            source = os.path.join(args.shared, "models", model + ".onnx")
            cases = sorted(glob.glob(os.path.join(args.shared, "models", "expected", model + ".*.npz")))
            if not os.path.exists(source) or not cases:
                print(f"skipped: golden {model} (no recorded outputs here)")
                continue
            container = os.path.join(work, model + ".mlc")
            try:
                run([mlpack, "build", source, "-o", container, "--target", args.target])
                variants = fitting_variants(mlrun, container)
            except RuntimeError as error:
                print(f"FAILED {model}: {error}")
                failed += 1
                continue
            for variant in variants:
                if variant == "portable" and os.path.getsize(source) > args.skip_portable_above:
                    continue
                for case in cases:
                    label = f"{os.path.basename(case)[:-4]} on {variant}"
                    try:
                        worst = compare(case, mlrun, container, variant, work, args.tolerance)
                        print(f"ok {label}: {worst:.1e}")
                        passed += 1
                    except RuntimeError as error:
                        print(f"FAILED {label}: {error}")
                        failed += 1
        if args.model:
            pass
        elif not os.path.exists(os.path.join(args.shared, "models/ppocr_v4_rec.onnx")):
            print("skipped: golden text line (no recogniser here)")
        else:
            try:
                count = read_line(mlpack, mlrun, args.shared, args.examples, work, args.target)
                print(f"ok text line: PORTABLE MODELS 2026, {count} times")
                passed += 1
            except RuntimeError as error:
                print(f"FAILED text line: {error}")
                failed += 1
    print(f"[doctest] test cases: {passed + failed} | {passed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
