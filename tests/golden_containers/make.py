"""Makes the golden containers of this version: make.py FOLDER-OF-THE-TOOLS. Files of a version that is out are never made again: a
folder that exists is left alone."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import onnx_file  # noqa: E402

VERSION = "1.0"
PIPELINE = {"mlc_pipeline": 1, "inputs": {"picture": {"accept": ["image/png"]}}, "steps": [
    {"op": "decode_image", "in": "picture", "color": "gray", "like": "pillow", "orient": "exif", "alpha": "over #ffffff"},
    {"op": "resize", "size": [2, 2], "kernel": "bilinear", "like": "pillow"}, {"op": "normalize", "div": 255}, {"op": "layout", "to": "NCHW", "out": "x"},
    {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "y"}}, {"op": "softmax", "in": "y", "axis": -1, "out": "p"},
    {"op": "top_k", "in": "p", "k": 2, "labels": "labels.txt", "out": "best"}], "outputs": ["best"]}


def run(tool, *args):
    return subprocess.run([str(tool), *map(str, args)], check=True, capture_output=True, text=True).stdout


def model(folder, name, shape):
    """y = relu(x w + b), of any number of rows, or of a picture."""
    nodes = [onnx_file.node("Flatten", ["x"], ["f"]), onnx_file.node("MatMul", ["f", "w"], ["p"]), onnx_file.node("Add", ["p", "b"], ["s"]), onnx_file.node("Relu", ["s"], ["y"])]
    w = onnx_file.tensor("w", "f32", [4, 3], struct.pack("<12f", *(((k * 5) % 7 - 3) / 2 for k in range(12))))
    b = onnx_file.tensor("b", "f32", [3], struct.pack("<3f", 0.5, -1, 2))
    (folder / name).write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", shape)], [onnx_file.port("y", "f32", [shape[0], 3])], [w, b]))


def main(bin_dir):
    out = HERE / VERSION
    if out.exists():
        sys.exit(f"{out} exists: files of a version are made once")
    out.mkdir()
    mlpack, mlrun = bin_dir / "mlpack", bin_dir / "mlrun"
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        model(scratch, "m.onnx", ["N", 4])
        model(scratch, "picture.onnx", [1, 1, 2, 2])
        (scratch / "p.json").write_text(json.dumps(PIPELINE))
        (scratch / "labels.txt").write_text("ant\nbee\ncat\n")
        run(mlpack, "keygen", "-o", scratch / "k.pem", "--type", "ed25519")
        (out / "key.pub.pem").write_bytes((scratch / "k.pub.pem").read_bytes())
        more = ["--target", "x86-64-v2,x86-64-v3,armv8-a", "--no-cache", "--id", "golden/model"]
        build = ["build", scratch / "m.onnx", *more]
        run(mlpack, *build, "-o", out / "signed.mlc", "--key", scratch / "k.pem")
        run(mlpack, *build, "-o", out / "unsigned.mlc", "--no-sign")
        run(mlpack, "thin", out / "signed.mlc", "--keep", "portable", "-o", out / "thin.mlc")
        run(mlpack, "build", scratch / "picture.onnx", *more, "--pipeline", scratch / "p.json", "-o", out / "picture.mlc", "--key", scratch / "k.pem")
    roots = {path.name: json.loads(run(mlpack, "inspect", path, "--json"))["root"] for path in sorted(out.glob("*.mlc"))}
    (out / "roots.json").write_text(json.dumps(roots, indent=1) + "\n")
    print(run(mlrun, "--version"), roots)


main(pathlib.Path(sys.argv[1]))
