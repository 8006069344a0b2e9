#!/usr/bin/env python3
"""Builds real models and compares what every variant of this host computes with recorded outputs of ONNX Runtime.

    models.py --bin build/release/bin --shared ../shared --examples examples [--model NAME ...] [--tolerance 1e-3]
    models.py ... --target armv8-a --mlrun "qemu-aarch64-static mlrun-aarch64"    the same on another processor

The recorded outputs are `<shared>/models/expected/<model>.<case>.npz` with arrays `in:<name>` and `out:<name>`. Without
that folder every case is reported as skipped. Cases with arrays `seq_in:<name>` are runs of many steps that carry state.
Then a line of text and a page of them are read through the pipelines of examples/ocr, and speech is decoded to tokens. The
pipelines are built without golden vectors, which their models had in the first part.
Needs python3-numpy.
"""
import argparse
import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from test_cache import test_cache

try:
    import numpy as np
except ImportError:
    print("skipped: golden models (python3-numpy is not installed)")
    sys.exit(0)

MODELS = ["mnist", "ppocr_cls", "ultraface_rfb_320", "ppocr_v4_det", "ppocr_v4_rec", "fastestdet", "mobilenet_v2_quant", "dtln_1",
          "dtln_2", "silero_vad_ifless", "silero_vad_v5", "magika_v3_3", "basic_pitch", "tiny_random_gpt2",
          "moonshine_tiny_encoder_int8", "moonshine_tiny_decoder_int8"]
# Networks that quantise at run time: one rounding moves a whole row. ONNX Runtime differs from itself by 5.6e-2 there when the
# input moves by a ten-millionth, and by 1.5e-2 with and without its optimisations (expected/README.md); half as much again is
# allowed, and what is decoded must be equal.
TOLERANCES = {"moonshine_tiny_encoder_int8": 8.4e-2, "moonshine_tiny_decoder_int8": 3e-2}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def fitting_variants(mlrun, container):
    answer = json.loads(run([*mlrun, "explain", container, "--json"]))
    return [v["name"] for v in answer["variants"] if v["answer"] == "fits"]


def differ(found, expected):
    """The largest difference over the largest expected output of each name; refuses other shapes and types."""
    worst = 0.0
    for name, want in expected.items():
        have = found[name]
        if have.shape != want.shape or have.dtype != want.dtype:
            raise RuntimeError(f"{name}: found {have.dtype}{have.shape}, expected {want.dtype}{want.shape}")
        scale = float(np.abs(want).max()) if want.size else 0.0
        difference = float(np.abs(have.astype(np.float64) - want).max()) if want.size else 0.0
        if not np.isfinite(difference):
            raise RuntimeError(f"{name}: not finite")
        worst = max(worst, difference / scale if scale else difference)
    return worst


def answer(mlrun, container, variant, work, inputs):
    given, answered = os.path.join(work, "in.npz"), os.path.join(work, "out.npz")
    np.savez(given, **inputs)
    run([*mlrun, "run", container, "--raw", "-i", given, "-o", answered, "--variant", variant])
    with np.load(answered) as arrays:
        return {k: arrays[k] for k in arrays.files}


def carry(rules, step, outputs, inputs):
    """Outputs that are inputs of the next step: "output>input", or "output>input@0" after the first step only."""
    for rule in rules:
        source, target = str(rule).split(">")
        target, _, only = target.partition("@")
        if not only or int(only) == step:
            inputs[target] = outputs[source]


def compare(case, mlrun, container, variant, work, tolerance):
    """One run, or as many as the case has steps, with state carried from step to step."""
    with np.load(case) as arrays:
        part = {p: {k[len(p):]: arrays[k] for k in arrays.files if k.startswith(p)} for p in ("in:", "out:", "seq_in:", "seq_out:")}
        rules = arrays["carry"] if "carry" in arrays.files else []
    inputs, worst = dict(part["in:"]), 0.0
    steps = len(next(iter(part["seq_in:"].values()))) if part["seq_in:"] else 1
    for step in range(steps):
        inputs.update({name: values[step] for name, values in part["seq_in:"].items()})
        outputs = answer(mlrun, container, variant, work, inputs)
        worst = max(worst, differ(outputs, {name: values[step] for name, values in part["seq_out:"].items()}))
        carry(rules, step, outputs, inputs)
    worst = max(worst, differ(outputs, part["out:"]))
    if worst > tolerance:
        raise RuntimeError(f"differs by {worst:.2e} of the largest output, allowed {tolerance:.0e}")
    return worst


def decode_speech(mlrun, shared, work):
    """Spoken samples to tokens, greedily, in every native variant of the containers in `work`: exactly those that ONNX Runtime gives.

    Each from the recorded output of the encoder, "go forward ten meters" from the sound itself as well. The third word
    of the other sample hangs on 0.04 to 0.12 between two tokens, by ONNX Runtime's own account, which is less than the
    rounding of an encoder that quantises as it runs.
    """
    containers = {half: os.path.join(work, f"moonshine_tiny_{half}_int8.mlc") for half in ("encoder", "decoder")}
    decoded = 0
    for case in sorted(glob.glob(os.path.join(shared, "models/expected/moonshine_tiny_decoder_int8.speech_*.npz"))):
        with np.load(case) as arrays, np.load(case.replace("decoder", "encoder")) as sound:
            expected = [int(t) for t in arrays["seq_in:input_ids"].ravel()]
            past = {k[3:]: arrays[k] for k in arrays.files if k.startswith("in:past")}
            rules, recorded = arrays["carry"], arrays["in:encoder_hidden_states"]
            samples = {k[3:]: sound[k] for k in sound.files if k.startswith("in:")}
        for variant in fitting_variants(mlrun, containers["decoder"]):
            if variant == "portable":
                continue
            encodings = [recorded]
            if "goforward" in case:
                encodings.append(answer(mlrun, containers["encoder"], variant, work, samples)["last_hidden_state"])
            for hidden in encodings:
                inputs = dict(past, encoder_hidden_states=hidden)
                tokens, token = [], 1
                while token != 2 and len(tokens) < 2 * len(expected):
                    tokens.append(token)
                    inputs.update(input_ids=np.array([[token]], np.int64), use_cache_branch=np.array([len(tokens) > 1]))
                    outputs = answer(mlrun, containers["decoder"], variant, work, inputs)
                    carry(rules, len(tokens) - 1, outputs, inputs)
                    token = int(np.argmax(outputs["logits"][0, -1]))
                if tokens != expected or token != 2:
                    raise RuntimeError(f"{os.path.basename(case)} on {variant}: tokens {tokens}, expected {expected}")
                decoded += 1
    return decoded


def read_line(mlpack, mlrun, shared, examples, work, target):
    """The recogniser with its pipeline: a picture in, exactly its text out, in every native variant."""
    container = os.path.join(work, "ocr.mlc")
    run([mlpack, "build", os.path.join(shared, "models/ppocr_v4_rec.onnx"), "-o", container, "--target", target, "--no-golden", "--pipeline",
         os.path.join(examples, "ocr/pipeline.json")])
    picture = os.path.join(shared, "models/text_line.png")
    found = {None: run([*mlrun, container, "--input", picture])}
    for variant in fitting_variants(mlrun, container):
        if variant != "portable":
            found[variant] = run([*mlrun, container, "--input", picture, "--variant", variant])
    for variant, text in found.items():
        if text != "PORTABLE MODELS 2026\n":
            raise RuntimeError(f"{variant}: {text!r}, expected 'PORTABLE MODELS 2026' and the end of the line")
    return len(found)


PAGE = ["One file for every machine", "compiled once, signed, verified", "Weights are mapped, not copied", "CPU, GPU or both: it decides",
        "Page 5 of 42, June 2026"]


def read_page(mlpack, mlrun, shared, examples, work, target):
    """Three models in one file: the lines of a page found, cut out, turned and read. The reader drops spaces of a narrow font, as it does under ONNX
    Runtime."""
    folder = os.path.join(work, "page")
    os.makedirs(folder)
    for name in ("ppocr_v4_det.onnx", "ppocr_cls.onnx", "ppocr_v4_rec.onnx"):
        shutil.copy(os.path.join(shared, "models", name), folder)
    for name in ("page.json", "ppocr_keys_v1.txt"):
        shutil.copy(os.path.join(examples, "ocr", name), folder)
    container = os.path.join(work, "page.mlc")
    run([mlpack, "build", os.path.join(folder, "page.json"), "-o", container, "--target", target, "--no-golden"])
    read = 0
    for variant in fitting_variants(mlrun, container):
        if variant == "portable":  # seconds for each line
            continue
        answer = json.loads(run([*mlrun, "run", container, "-i", os.path.join(shared, "models/text_page.png"), "--variant", variant, "--json"]))
        lines = [line["text"].replace(" ", "") for line in answer["outputs"]["text"]]
        if lines != [line.replace(" ", "") for line in PAGE]:
            raise RuntimeError(f"{variant}: {lines}, expected {PAGE}")
        # Each line's upper left corner: its rows in the map of expected/README.md begin at 36, 105, 174, 241 and 309, and boxes are larger.
        tops = answer["outputs"]["places"]["data"][1::8]
        if any(not 5 <= row - top <= 16 for row, top in zip((36, 105, 174, 241, 309), tops)):
            raise RuntimeError(f"{variant}: lines begin at {tops}")
        read += 1
    return read


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
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = os.path.join(work, "home")
        os.environ["XDG_CACHE_HOME"] = str(test_cache())
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
                        worst = compare(case, mlrun, container, variant, work, TOLERANCES.get(model, args.tolerance))
                        print(f"ok {label}: {worst:.1e}")
                        passed += 1
                    except RuntimeError as error:
                        print(f"FAILED {label}: {error}")
                        failed += 1
        whole = [] if args.model else [
            ("PORTABLE MODELS 2026 read", "ppocr_v4_rec", lambda: read_line(mlpack, mlrun, args.shared, args.examples, work, args.target)),
            ("a page read", "ppocr_v4_det", lambda: read_page(mlpack, mlrun, args.shared, args.examples, work, args.target.split(",")[0])),
            ("speech decoded", "moonshine_tiny_decoder_int8", lambda: decode_speech(mlrun, args.shared, work))]
        for what, model, check in whole:
            if not os.path.exists(os.path.join(args.shared, "models", model + ".onnx")):
                print(f"skipped: {what} (no {model} here)")
                continue
            try:
                print(f"ok {what}: {check()} times")
                passed += 1
            except RuntimeError as error:
                print(f"FAILED {what}: {error}")
                failed += 1
    print(f"[doctest] test cases: {passed + failed} | {passed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
