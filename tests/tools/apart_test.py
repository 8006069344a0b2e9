"""Devices by program: a pipeline whose first model runs on a device of NVIDIA and whose second runs on the processor. On the libcuda of the
tests (tests/support/fakecuda), whose folder is in MLC_FAKE_CUDA_FOLDER."""
import json
import os
import struct

from npz_file import read, write
from onnx_file import model, node, port, tensor
from tool_test import main

OTHER = ("run", "p.mlc", "-i", "in.npz", "-o", "out.npz", "--json")


def dense(columns, numbers):
    """tanh(x w): [n, 24] to [n, columns]."""
    w = tensor("w", "f32", [24, columns], struct.pack(f"<{24 * columns}f", *((k * numbers % 53 - 26) / 100 for k in range(24 * columns))))
    return model([node("MatMul", ["x", "w"], ["z"], "product"), node("Tanh", ["z"], ["y"], "tanh")], [port("x", "f32", ["n", 24])], [port("y", "f32", None)], [w], opset=17)


def built(t):
    """Two programs, one behind the other: `detect` and `read`."""
    (t.dir / "det.onnx").write_bytes(dense(24, 29))
    (t.dir / "read.onnx").write_bytes(dense(8, 31))
    pipeline = {"mlc_pipeline": 1, "programs": {"detect": "det.onnx", "read": "read.onnx"}, "inputs": {"rows": {"accept": ["application/x-npy"]}},
                "steps": [{"op": "run", "program": "detect", "in": {"x": "rows"}, "out": {"y": "found"}},
                          {"op": "run", "program": "read", "in": {"x": "found"}, "out": {"y": "letters"}}],
                "outputs": ["found", "letters"]}
    (t.dir / "p.json").write_text(json.dumps(pipeline))
    t.run("mlpack", "build", "p.json", "-o", "p.mlc", "-f", "--progress", "none", "--golden-time", "0", "--target", "cuda-sm80,native")
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    write(t.dir / "in.npz", {"rows": ("f32", (3, 24), [(k * 37 % 101 - 50) / 50 for k in range(72)])})
    write(t.dir / "x.npz", {"x": ("f32", (3, 24), [(k * 37 % 101 - 50) / 50 for k in range(72)])})


def answered(t, *devices):
    done = t.run("mlrun", *OTHER, *(word for d in devices for word in ("--devices", d)))
    return json.loads(done.stdout), {name: values for name, (_, values) in read(t.dir / "out.npz").items()}, done.stderr


def where(programs):
    return {p["name"]: (p["device"], p["variant"].startswith("cuda")) for p in programs}


PROCESSOR, DEVICE = ("", False), ("gpu0", True)


def same(expected, found):
    for name in expected:
        assert max(abs(a - b) for a, b in zip(expected[name], found[name], strict=True)) < 1e-5, (name, expected[name][:4], found[name][:4])


def each_program_runs_where_it_was_told(t):
    built(t)
    told, expected, _ = answered(t, "cpu")
    assert set(where(told["programs"]).values()) == {PROCESSOR}, told
    # In one option or in several; what is not named is what an entry without a name says.
    for devices in (("detect=gpu0;read=cpu;cpu",), ("detect=gpu0", "read=cpu", "cpu"), ("cpu", "detect=gpu")):
        told, found, _ = answered(t, *devices)
        placed = where(told["programs"])
        assert placed.pop("detect") == DEVICE and set(placed.values()) == {PROCESSOR} and "read" in placed, (devices, told)
        assert "fell_back" not in told, told
        same(expected, found)
    told, found, _ = answered(t, "read=gpu0;cpu")
    assert where(told["programs"])["read"] == DEVICE and where(told["programs"])["detect"] == PROCESSOR, told
    same(expected, found)
    # What is not named keeps what it has without names.
    told, found, _ = answered(t, "read=cpu")
    placed = where(told["programs"])
    assert placed.pop("read") == PROCESSOR and set(placed.values()) == {DEVICE}, told
    same(expected, found)
    line = t.run("mlrun", "run", "p.mlc", "-i", "in.npz", "-o", "out.npz", "--devices", "detect=gpu0;cpu").stderr
    assert "detect cuda-sm80 on gpu0, " in line and "read native" not in line.split("detect cuda-sm80 on gpu0")[0], line


def launches_are_on_the_device_of_their_program(t):
    built(t)
    for program, device in (("detect", "gpu0"), ("read", "")):
        profiled = json.loads(t.run("mlrun", "profile", "p.mlc", "--raw", "--program", program, "-i", "x.npz", "--devices", "detect=gpu0;read=cpu",
                                    "--duration", "20ms", "--warmup", "0ms", "--json").stdout)
        assert profiled["program"] == program and profiled["variant"].startswith("cuda") == bool(device), profiled
        assert profiled["launches"] and {launch["device"] for launch in profiled["launches"]} <= ({device} if device else {"", "cpu"}), profiled["launches"]
    benched = json.loads(t.run("mlrun", "bench", "p.mlc", "--raw", "--program", "detect", "-i", "x.npz", "--devices", "detect=gpu0;cpu", "--duration", "20ms",
                               "--warmup", "0ms", "--json").stdout)
    assert benched["variant"] == "cuda-sm80", benched


def what_is_chosen_is_explained(t):
    built(t)
    explained = json.loads(t.run("mlrun", "explain", "p.mlc", "--devices", "detect=gpu0", "--devices", "cpu", "--json").stdout)
    assert where(explained["programs"])["detect"] == DEVICE and where(explained["programs"])["read"] == PROCESSOR, explained
    text = t.run("mlrun", "explain", "p.mlc", "--devices", "detect=gpu0;cpu").stdout
    assert "detect: cuda-sm80, gpu0" in text and text.count("chosen  ") == 2, text
    text = t.run("mlrun", "explain", "p.mlc", "--devices", "cpu").stdout
    assert "detect:" not in text and text.count("chosen  ") == 1, text
    # The golden vectors of a program are run where it runs.
    t.run("mlrun", "selftest", "p.mlc", "--devices", "detect=gpu0;read=cpu;cpu")


def wrong_names_are_refused(t):
    built(t)
    for devices, message in (("detct=gpu0", "the file has no program 'detct'"), ("detect=gpu7", "there is no device 'gpu7'"), ("detect=tpu", "devices 'tpu'"),
                             ("=gpu0", "names no program"), ("detect=gpu0;detect=cpu", "those of program 'detect' are said twice"), ("gpu0;cpu", "said twice")):
        refused = t.run("mlrun", "run", "p.mlc", "-i", "in.npz", "--devices", devices, code=2).stderr
        assert message in refused, (devices, refused)
    refused = t.run("mlrun", "run", "p.mlc", "-i", "in.npz", "--devices", "detct=gpu0", code=2).stderr
    assert "detect, read" in refused or "read" in refused.split("it has")[1], refused
    refused = t.run("mlrun", "run", "p.mlc", "-i", "in.npz", "--devices", "detect=gpu0,cpu;cpu", "--place", "read.0=gpu0", code=2).stderr
    assert "placement" in refused, refused
    assert "tune" in t.run("mlrun", "tune", "p.mlc", "--devices", "detect=gpu0", code=2).stderr


def a_device_that_fails_takes_its_program_alone_to_the_processor(t):
    built(t)
    _, expected, _ = answered(t, "cpu")
    for broken in ("fail_launch=1", "fail_allocation=2", "memory=64"):
        t.env["MLC_FAKE_CUDA"] = broken
        told, found, said = answered(t, "detect=gpu0;cpu")
        same(expected, found)
        notes = said + told.get("fell_back", "")
        assert "detect: " in notes and "read: " not in notes, (broken, said, told)
        assert where(told["programs"])["read"] == PROCESSOR, told
    # There is no card: those that name it are refused, as without programs; of itself each runs where it can.
    t.env["MLC_FAKE_CUDA"] = "init=100"
    t.run("mlrun", "run", "p.mlc", "-i", "in.npz", "--devices", "detect=gpu0;cpu", code=2)
    told, found, said = answered(t, "detect=gpu;cpu")
    assert set(where(told["programs"]).values()) == {PROCESSOR} and "detect: native runs on the processor" in said, (told, said)
    same(expected, found)
    # A card that no variant is for.
    t.env["MLC_FAKE_CUDA"] = "cc=75"
    told, found, said = answered(t, "detect=gpu0;cpu")
    assert set(where(told["programs"]).values()) == {PROCESSOR} and "detect: native runs on the processor" in said, (told, said)


def objectives_are_of_the_programs_that_have_devices(t):
    built(t)
    _, expected, _ = answered(t, "cpu")
    done = t.run("mlrun", *OTHER, "--devices", "detect=cpu,gpu0;cpu", "--objective", "latency")
    same(expected, {name: values for name, (_, values) in read(t.dir / "out.npz").items()})
    assert where(json.loads(done.stdout)["programs"])["read"] == PROCESSOR, done.stdout


def memory_is_limited_once(t):
    built(t)
    full = t.run("mlrun", "run", "p.mlc", "-i", "in.npz", "-o", "out.npz", "--devices", "detect=gpu0;cpu", "--memory-limit", "1K", code=7).stderr
    assert "E6006" in full, full


if __name__ == "__main__":
    main([each_program_runs_where_it_was_told, launches_are_on_the_device_of_their_program, what_is_chosen_is_explained, wrong_names_are_refused,
          a_device_that_fails_takes_its_program_alone_to_the_processor, objectives_are_of_the_programs_that_have_devices, memory_is_limited_once])
