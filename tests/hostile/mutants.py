"""Mutants of unsigned containers through mlrun: no crash, no run above the limits, no other answer under the same root.

mutants.py BIN [COUNT] [SEED]: COUNT mutants of each model (default 60; a long campaign is 2500), from SEED (default 1)."""
import collections
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv[1]).resolve()
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 60
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
# Exit codes that the manual lists for a file that is refused or cannot be run.
EXPECTED = {0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 20, 21}
# How mlrun tells that the process which it opens strangers' files in was ended by a signal.
CRASHES = {"E6002", "E6003", "E6011", "E6012"}
SECONDS = float(os.environ.get("MLC_MUTANT_SECONDS", "2"))
MEMORY = 4 << 30  # of address space; what is resident is limited by mlrun itself


def npy(path, values):
    """A file of 64-bit integers."""
    head = str({"descr": "<i8", "fortran_order": False, "shape": (len(values),)}).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}q", *values))
    return path


def node_inputs(folder):
    """Inputs that fit cases of the ONNX set: drawn ones would be refused before the mutated code is reached."""
    numbers = npy(folder / "numbers.npy", [1, 2, 3, 4, 5, 6])
    days = folder / "days.txt"
    days.write_text("monday\ntuesday\nwednesday\nthursday\n")
    return {
        "test_loop11": ["trip_count=5", "cond=1", "y=-2"],
        "test_loop13_seq": ["trip_count=5", "cond=1", "seq_empty=7"],
        "test_sequence_insert_at_back": [f"sequence={numbers}", f"sequence={numbers}", f"tensor={npy(folder / 'three.npy', [7, 8, 9])}"],
        "test_tfidfvectorizer_tf_uniandbigrams_skip5": ["random"],
        "test_strnormalizer_export_monday_casesensintive_upper": [f"x={days}"],
        "test_if_opt": ["random"],
    }


def models(folder):
    """Name, model, options of the build, input: pictures, arrays, strings and lists, control flow."""
    shared = ROOT.parent / "shared" / "models"
    digits = ROOT / "examples/digits"
    yield "digits", digits / "digits.onnx", ["--pipeline", digits / "pipeline.json"], ["--input", digits / "images/plain_7.png"]
    custom = ROOT / "examples/custom_operator"
    yield "faces", custom / "faces.onnx", ["--ops", custom / "ops"], ["--raw", "-i", "random"]
    nodes = pathlib.Path("/usr/share/libonnx-testdata/data/node")
    for case, inputs in node_inputs(folder).items():
        if (nodes / case / "model.onnx").exists():
            yield case, nodes / case / "model.onnx", [], ["--raw", *(word for value in inputs for word in ("-i", value))]
    if (shared / "ppocr_cls.onnx").exists():
        yield "ppocr_cls", shared / "ppocr_cls.onnx", [], ["--raw", "-i", "random"]


def run(program, *args):
    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    start = time.monotonic()
    try:
        done = subprocess.run([str(BIN / program), *map(str, args)], capture_output=True, preexec_fn=limit, timeout=60)
    except subprocess.TimeoutExpired as late:
        return None, late.stdout or b"", 60.0
    return done.returncode, done.stdout + done.stderr, time.monotonic() - start


def answer(container, options):
    code, text, seconds = run("mlrun", "run", container, *options, "--json")
    try:
        parsed = json.loads(text) if code is not None else {}
    except ValueError:
        parsed = {}
    return code, parsed, text, seconds


def campaign(name, model, how, options, folder):
    """Counts by exit code, and what must not be."""
    original = folder / "original.mlc"
    build = ["build", model, "-o", original, "--target", "portable", "--no-sign"]
    code, text, _ = run("mlpack", *build, *how)
    if code != 0:
        return collections.Counter(), [f"{name}: not built: {text.decode(errors='replace').strip()}"]
    code, good, text, _ = answer(original, options)
    if code != 0:
        return collections.Counter(), [f"{name}: does not answer: {text.decode(errors='replace').strip()}"]
    subprocess.run([BIN / "mutants", original, folder, str(COUNT), str(SEED)], check=True)
    counts, bad, slowest = collections.Counter(), [], 0.0
    for n in range(COUNT):
        file = folder / f"{n}.mlc"
        code, parsed, text, seconds = answer(file, options)
        counts[code] += 1
        slowest = max(slowest, seconds)
        same_root = parsed.get("root") is not None and parsed.get("root") == good.get("root")
        crashed = code not in EXPECTED or parsed.get("code") in CRASHES
        if crashed or seconds > SECONDS or (same_root and parsed.get("outputs") != good.get("outputs")):
            kept = pathlib.Path(tempfile.gettempdir()) / f"mutant-{name}-{SEED}-{n}.mlc"
            shutil.copy(file, kept)
            bad.append(f"{kept}: exit {code} after {seconds:.2f} s: {text[-300:].decode(errors='replace').strip()}")
        file.unlink()
    print(f"{name}: {COUNT} mutants, slowest {slowest:.2f} s, exit codes {dict(sorted(counts.items(), key=str))}")
    return counts, bad


def main():
    total, bad = collections.Counter(), []
    inputs = pathlib.Path(tempfile.mkdtemp(prefix="mlc-mutants-"))
    for name, model, how, options in models(inputs):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="mlc-mutants-"))
        try:
            counts, wrong = campaign(name, model, how, options, folder)
            total += counts
            bad += wrong
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(inputs, ignore_errors=True)
    print(f"{sum(total.values())} mutants, exit codes {dict(sorted(total.items(), key=str))}, {len(bad)} findings")
    for line in bad[:20]:
        print("FAIL ", line)
    sys.exit(1 if bad or not total else 0)


main()
