"""examples/ray in a real Ray of PyPI: two nodes on one machine, one of which is killed under load. Exit code 77: no Ray.

    ray_test.py FOLDER-OF-THE-TOOLS FOLDER-OF-THE-LIBRARIES
"""
import json
import pathlib
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/registry"), str(ROOT / "tests/tools")]
from environments import environment  # noqa: E402
from tool_test import Skipped, main  # noqa: E402


def ray_python(bin_dir):
    python = environment(types.SimpleNamespace(bin=pathlib.Path(bin_dir).resolve()), "ray", "ray[serve]", "numpy")
    wheel = pathlib.Path(bin_dir).resolve().parent / "ray-wheel"
    made = subprocess.run([ROOT / "bindings/python/build_wheel.sh", "--libraries", sys.argv[2], "--out", wheel], capture_output=True, text=True)
    if made.returncode == 77:
        raise Skipped(made.stdout.strip())
    assert made.returncode == 0, made.stderr
    subprocess.run([python, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-index", "--no-deps", "--force-reinstall", *wheel.glob("mlrt-*.whl")], check=True)
    return python


def a_node_that_dies_under_load_costs_no_answer(t):
    digits = ROOT / "examples/digits"
    t.run("mlpack", "build", digits / "digits.onnx", "--pipeline", digits / "pipeline.json", "-o", "digits.mlc", "--target", "native")
    offered = t.run("mlrun", "probe", "--ray").stdout.strip()
    done = subprocess.run([PYTHON, pathlib.Path(__file__).with_name("ray_cluster.py"), ROOT / "examples/ray", t.dir / "digits.mlc", digits / "images", offered],
                          env=t.env, cwd=t.dir, capture_output=True, text=True, timeout=400, stdin=subprocess.DEVNULL)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and "DONE" in lines, done.stdout[-4000:] + done.stderr[-4000:]
    answers = [line.split(" ", 2)[1:] for line in lines if line.startswith("ANSWER ")]
    assert len(answers) == len(list((digits / "images").iterdir()))
    for picture, answer in answers:
        wanted = t.json("mlrun", "run", "digits.mlc", "--input", digits / "images" / picture)["outputs"]["digits"]
        assert [(one["label"], one["index"]) for one in json.loads(answer)["digits"]] == [(one["label"], one["index"]) for one in wanted], picture
    print(next(line for line in lines if "right answers" in line))


try:
    PYTHON = ray_python(sys.argv[1])
except Skipped as why:
    print(f"skipped: {why}")
    sys.exit(77)
main([a_node_that_dies_under_load_costs_no_answer])
