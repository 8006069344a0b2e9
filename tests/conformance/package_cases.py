#!/usr/bin/env python3
"""Writes the backend test cases of the installed onnx package, as the folders that ONNX's own test data consists of.

    package_cases.py OUT [--only TEXT]       writes OUT/KIND/NAME/...
    package_cases.py --version               prints the package's version
    onnx_node_tests --set 1.23=OUT

The package has the node tests as the programs that make them, nowhere as files; small models of other kinds lie in it as
files and are copied. What draws its inputs seeds the generator first, so every run writes the same. Left out are the `real`
models, which are large and have an expected output only. Needs onnx; says so and exits 77 without it.
"""
import argparse
import json
import pathlib
import shutil
import sys
import warnings

try:
    import onnx
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test import loader
    from onnx.backend.test.case.model import collect_testcases
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FILES = ("simple", "pytorch-converted", "pytorch-operator")


def proto_of(value, port):
    """A value as the message that the type of its port says."""
    kind = port.type.WhichOneof("value")
    if kind == "tensor_type":
        return value if isinstance(value, TensorProto) else numpy_helper.from_array(value, port.name)
    make = {"map_type": numpy_helper.from_dict, "sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional}[kind]
    return make(value, port.name)


def write(case, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    if (case.rtol, case.atol) != (1e-3, 1e-7):
        (folder / "data.json").write_text(json.dumps({"rtol": case.rtol, "atol": case.atol}))
    graph = case.model.graph
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for prefix, values, ports in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for at, (value, port) in enumerate(zip(values, ports)):
                (data / f"{prefix}_{at}.pb").write_bytes(proto_of(value, port).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--version", action="store_true")
    o = parser.parse_args()
    if o.version:
        print(onnx.__version__)
        return
    if not o.out:
        parser.error("where to? OUT")
    for kind in FILES:
        for case in loader.load_model_tests(kind=kind):
            if o.only in case.name:
                shutil.copytree(case.model_dir, o.out / kind / case.name, dirs_exist_ok=True)
    warnings.simplefilter("ignore")  # of NumPy, about infinities and overflow that cases are about
    made = loader.load_node_model_tests() + [case for case in collect_testcases() if case.kind == "simple"]
    for case in made:
        if o.only in case.name:
            write(case, o.out / case.kind / case.name)


if __name__ == "__main__":
    main()
