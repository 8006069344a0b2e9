#!/usr/bin/env python3
"""Writes models made after public reports, with their answers, in the layout of ONNX's node tests.

    report_cases.py REPORTS OUT [--only CASE]...     REPORTS/CASE/make.py makes each; writes OUT/CASE.VARIANT/...
    onnx_node_tests --set reports=OUT

Each make.py leaves models/VARIANT.onnx, .json (the tolerance), .inK.npz and .expK.npz for run K. A variant of several runs becomes
several cases: CASE.VARIANT, CASE.VARIANT.1, ... Needs numpy, onnx and onnxruntime; says so and exits 77 without them, or without REPORTS.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime  # noqa: F401
    from onnx import TensorProto, numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


TIE = "its scale is no double: which pixel is nearest hangs on how it is rounded, and ONNX's reference answers as we do"
REFUSED = "is refused with a sentence that says what to do, which these tests cannot do"
NOISE = "ONNX Runtime's answer is itself further from the exact one than the tolerance"
MEAN = "a row of equal numbers, whose variance is what rounding leaves of their mean: the order of the sum decides"
LEFT_OUT = {
    "01-resize-ties.s50_35": TIE, "01-resize-ties.s9_42": TIE, "01-resize-ties.s9_42_free": TIE,
    "02-branch-gives-outer.squeeze_ranks": REFUSED, "13-declared-shapes.same_symbol_one_and_n": REFUSED,
    "25-files-as-found.ir3_override": REFUSED, "25-files-as-found.ir8_override.1": REFUSED,
    "10-half-and-norms.little_between_fixed": MEAN, "10-half-and-norms.little_between_free": MEAN,
    "23-speed.dft_prime": NOISE, "23-speed.dft_1024": NOISE, "23-speed.stft": NOISE,
}


# On processors without VNNI ONNX Runtime adds pairs of products of 8 bits in 16, which saturates: there ONNX's reference answers.
MAKE = """
import pathlib, runpy, sys
import onnx, onnxruntime
from onnx.reference import ReferenceEvaluator
SATURATES = "vnni" not in pathlib.Path("/proc/cpuinfo").read_text()
class Session(onnxruntime.InferenceSession):
    def __init__(self, model, *rest, **named):
        super().__init__(model, *rest, **named)
        read = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
        self.exact = SATURATES and any(n.op_type in ("MatMulInteger", "ConvInteger") for n in read.graph.node) and read
    def run(self, names, feeds, *rest):
        return ReferenceEvaluator(self.exact).run(names, feeds) if self.exact else super().run(names, feeds, *rest)
onnxruntime.InferenceSession = Session
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def values_of(path):
    """Arrays by name, and lists: NAME//len says how many, NAME//0 is the first."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    lists = {name[:-5]: [arrays[f"{name[:-5]}//{k}"] for k in range(int(arrays[name]))] for name in arrays if name.endswith("//len")}
    return {**{name: a for name, a in arrays.items() if "//" not in name}, **lists}


def proto_of(value, port):
    if isinstance(value, list):
        return numpy_helper.from_list([np.asarray(v) for v in value], port.name)
    if value.dtype.kind == "U":
        return onnx.helper.make_tensor(port.name, TensorProto.STRING, value.shape, [v.encode() for v in value.ravel().tolist()])
    declared = port.type.tensor_type.elem_type
    if declared == TensorProto.BFLOAT16 and value.dtype == np.uint16:
        return onnx.helper.make_tensor(port.name, declared, value.shape, value.tobytes(), raw=True)
    return numpy_helper.from_array(value, port.name)


def locations(graph):
    """Files of external data, of the bodies of nodes too."""
    found = {entry.value for t in graph.initializer for entry in t.external_data if entry.key == "location"}
    for attribute in (a for node in graph.node for a in node.attribute):
        found |= {entry.value for entry in attribute.t.external_data if entry.key == "location"}
        for body in (attribute.g, *attribute.graphs):
            found |= locations(body)
    return found


def tolerance_of(told, right):
    """As told, and a fifty thousandth of the largest number: where a sum cancels, the order of its terms is all that is left."""
    items = [item for value in right.values() for item in (value if isinstance(value, list) else [value])]
    finite = [np.abs(item[np.isfinite(item)].astype(np.float64)) for item in items if item.dtype.kind == "f"]
    largest = max((float(numbers.max()) for numbers in finite if numbers.size), default=0.0)
    return told[0], max(told[1], 2e-5 * largest)


def write(made, name, meta, run, folder):
    """One run of a variant; nothing where its answer is not known."""
    model = onnx.load(made / f"{name}.onnx", load_external_data=False)
    constants = {t.name for t in model.graph.initializer} if model.ir_version < 4 else set()
    ports = [port for port in model.graph.input if port.name not in constants]
    given, right = values_of(made / f"{name}.in{run}.npz"), values_of(made / f"{name}.exp{run}.npz")
    if not right:
        return False
    folder.mkdir(parents=True)
    for location in locations(model.graph):
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--sparse=always", made / location, folder / location], check=True)
    shutil.copy(made / f"{name}.onnx", folder / "model.onnx")
    relative, absolute = tolerance_of(meta["tol"], right)
    (folder / "data.json").write_text(json.dumps({"rtol": relative, "atol": absolute}))
    data = folder / "test_data_set_0"
    data.mkdir()
    for prefix, values, some in (("input", given, ports), ("output", right, model.graph.output)):
        for at, port in enumerate(some):
            if port.name in values:
                (data / f"{prefix}_{at}.pb").write_bytes(proto_of(values[port.name], port).SerializeToString())
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[])
    o = parser.parse_args()
    o.reports = o.reports.resolve()
    cases = sorted(p.parent.name for p in o.reports.glob("*/make.py"))
    if not cases:
        print(f"skipped: no reports in {o.reports}")
        sys.exit(77)
    shutil.rmtree(o.out, ignore_errors=True)
    for case in cases:
        if o.only and case not in o.only:
            continue
        with tempfile.TemporaryDirectory() as work:
            made = pathlib.Path(work) / "models"
            ran = subprocess.run([sys.executable, "-c", MAKE, str(o.reports / case / "make.py")], env=dict(os.environ, CASE_OUT=work), cwd=work,
                                 capture_output=True, text=True)
            if ran.returncode:
                sys.exit(f"{case}: make.py fails: {ran.stderr.strip()[-300:]}")
            for described in sorted(made.glob("*.json")):
                meta = json.loads(described.read_text())
                for run in range(meta["runs"]):
                    name = f"{case}.{described.stem}" + (f".{run}" if run else "")
                    if name in LEFT_OUT:
                        print(f"left out: {name}: {LEFT_OUT[name]}")
                    elif not write(made, described.stem, meta, run, o.out / name):
                        print(f"left out: {name}: no answer is known")


main()
