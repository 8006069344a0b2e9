"""Devices by program: a pipeline whose first model runs on a device of NVIDIA and whose second runs on the processor. On the libcuda of the
tests (tests/support/fakecuda), whose folder is in MLC_FAKE_CUDA_FOLDER."""
import json
import os
import struct

from npz_file import read, write
from onnx_file import model, node, port, tensor
from pipeline_test import png
from tool_test import main

RUN = ("run", "p.mlc", "-i", "photo.png", "-o", "out.npz", "--json")


def weights(name, shape, numbers):
    count = shape[0] * shape[1]
    return tensor(name, "f32", shape, struct.pack(f"<{count}f", *((k * numbers % 53 - 26) / 100 for k in range(count))))


def finder():
    """Boxes of any picture: as written, and 0 times what is in it."""
    boxes = [(0, 0, 4, 2), (4, 1, 8, 3), (2, 2, 6, 6)]
    nodes = [node("Cast", ["x"], ["f"], to=1), node("ReduceMax", ["f"], ["most"], axes=[0, 1, 2, 3], keepdims=0), node("Mul", ["most", "zero"], ["none"]), node("Add", ["fixed", "none"], ["boxes"])]
    return model(nodes, [port("x", "u8", [1, 3, "H", "W"])], [port("boxes", "f32", [3, 4])],
                 [tensor("fixed", "f32", [3, 4], struct.pack("<12f", *(v for box in boxes for v in box))), tensor("zero", "f32", [], struct.pack("<f", 0))])


def dense():
    """tanh(x w) of pictures of 2 rows and 4 columns."""
    nodes = [node("Flatten", ["x"], ["row"], "flat", axis=1), node("MatMul", ["row", "w"], ["z"], "product"), node("Tanh", ["z"], ["y"], "tanh")]
    return model(nodes, [port("x", "f32", ["n", 3, 2, 4])], [port("y", "f32", None)], [weights("w", [24, 8], 31)], opset=17)


MANY = 410  # arrays in one block, more than a launch takes


def wide():
    """As dense(), and the sum of many arrays added."""
    terms = [f"t{k}" for k in range(MANY)]
    nodes = [node("Flatten", ["x"], ["row"], "flat", axis=1), node("MatMul", ["row", "w"], ["z"], "product"), node("Wide", ["z", *terms], ["all"], "wide", domain="example"),
             node("Tanh", ["all"], ["y"], "tanh")]
    return model(nodes, [port("x", "f32", ["n", 3, 2, 4])], [port("y", "f32", None)],
                 [weights("w", [24, 8], 31), *(tensor(name, "f32", [8], struct.pack("<8f", *((k * 7 + i) % 5 / 1000 for i in range(8)))) for k, name in enumerate(terms))],
                 opset=17, domains=("example",))


def built(t, reader=dense, *more):
    """Two programs with a list between them, which the host makes: the sections `default`, which runs `detect`, and `default.each`, which runs `read`."""
    (t.dir / "det.onnx").write_bytes(finder())
    (t.dir / "read.onnx").write_bytes(reader())
    inner = [{"op": "resize", "in": "part", "size": [2, 4], "kernel": "nearest", "like": "pillow"}, {"op": "normalize", "div": 255}, {"op": "layout", "to": "NCHW", "out": "x"},
             {"op": "run", "program": "read", "in": {"x": "x"}, "out": {"y": "letters"}}]
    pipeline = {"mlc_pipeline": 1, "programs": {"detect": "det.onnx", "read": "read.onnx"}, "inputs": {"photo": {"accept": ["image/png"]}},
                "steps": [{"op": "decode_image", "in": "photo", "color": "rgb", "orient": "ignore", "alpha": "drop", "out": "rgb"}, {"op": "layout", "to": "NCHW", "out": "planes"},
                          {"op": "run", "program": "detect", "in": {"x": "planes"}, "out": {"boxes": "boxes"}}, {"op": "cut", "in": "rgb", "boxes": "boxes", "out": "parts"},
                          {"op": "for_each", "in": {"part": "parts"}, "steps": inner, "out": {"letters": "letters"}}],
                "outputs": ["letters"]}
    (t.dir / "p.json").write_text(json.dumps(pipeline))
    told = t.run("mlpack", "build", "p.json", "-o", "p.mlc", "-f", "--progress", "none", "--golden-time", "5", "--target", "cuda-sm80,native", *more)
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    (t.dir / "photo.png").write_bytes(png([[(x * 30, y * 40, 40 * (x > 3)) for x in range(8)] for y in range(6)]))
    write(t.dir / "x.npz", {"x": ("f32", (1, 3, 2, 4), [(k * 37 % 101 - 50) / 50 for k in range(24)])})
    return told


def answered(t, *devices):
    done = t.run("mlrun", *RUN, *(word for d in devices for word in ("--devices", d)))
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
    assert where(told["programs"]) == dict.fromkeys(("default", "default.each", "detect", "read"), PROCESSOR), told
    on_device = {"detect": ("default", "detect"), "read": ("default.each", "read"), "default.each": ("default.each",)}
    # In one option or in several; what is not named is what an entry without a name says, and without one it is as ever.
    for devices, names in ((("detect=gpu0;read=cpu",), "detect"), (("detect=gpu0", "read=cpu"), "detect"), (("cpu", "detect=gpu"), "detect"), (("read=gpu0;cpu",), "read"),
                           (("detect=cpu",), "read"), (("detect=cpu", "read=cpu", "default.each=gpu0"), "default.each")):
        told, found, _ = answered(t, *devices)
        assert where(told["programs"]) == {name: DEVICE if name in on_device[names] else PROCESSOR for name in ("default", "default.each", "detect", "read")}, (devices, told)
        assert "fell_back" not in told, told
        same(expected, found)
    line = t.run("mlrun", "run", "p.mlc", "-i", "photo.png", "-o", "out.npz", "--devices", "read=gpu0;cpu").stderr
    assert "default.each cuda-sm80 on gpu0, " in line and "detect cuda" not in line, line
    # What it is made of says which programs a section has.
    programs = {p["name"]: p.get("runs") for p in t.json("mlpack", "inspect", "p.mlc")["programs"]}
    assert programs == {"default": ["detect"], "default.each": ["read"], "detect": None, "read": None}, programs


def launches_are_on_the_device_of_their_program(t):
    built(t)
    for program, given, device in (("detect", ("random", "--dim", "H=6", "--dim", "W=8"), "gpu0"), ("read", ("x.npz",), "")):
        profiled = json.loads(t.run("mlrun", "profile", "p.mlc", "--raw", "--program", program, "-i", *given, "--devices", "detect=gpu0;read=cpu",
                                    "--duration", "20ms", "--warmup", "0ms", "--json").stdout)
        assert profiled["program"] == program and bool(device) == profiled["variant"].startswith("cuda"), profiled
        assert profiled["launches"] and {launch["device"] for launch in profiled["launches"]} <= ({device} if device else {"", "cpu"}), profiled["launches"]
    benched = json.loads(t.run("mlrun", "bench", "p.mlc", "--raw", "--program", "read", "-i", "x.npz", "--devices", "read=gpu0;cpu", "--duration", "20ms",
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
    tested = json.loads(t.run("mlrun", "selftest", "p.mlc", "--devices", "detect=gpu0;read=cpu;cpu", "--json").stdout)["variants"]
    assert [v["answer"] for v in tested if v["name"] == "by program"] == ["ok"] and tested[-1]["device"] == "detect=gpu0;read=cpu;cpu" and tested[-1]["vectors"] > 1, tested


def applications_are_told_the_same(t):
    """mlc.hpp: devices by program in one string, and what runs each program."""
    built(t)
    for devices, on_device in (("detect=gpu0;read=cpu", ("default", "detect")), ("read=gpu0;cpu", ("default.each", "read")), ("cpu", ())):
        lines = t.run("program_places", "p.mlc", t.bin / "mlrun", devices).stdout.split("\n")[:-1]
        told = where([dict(zip(("name", "variant", "device"), line.replace(" cpu", " ").split(" "))) for line in lines])
        assert told == {name: DEVICE if name in on_device else PROCESSOR for name in ("default", "default.each", "detect", "read")}, (devices, lines)
    refused = t.run("program_places", "p.mlc", t.bin / "mlrun", "detct=gpu0", code=2).stderr
    assert "the file has no program 'detct'" in refused, refused


def wrong_names_are_refused(t):
    built(t)
    for devices, message in (("detct=gpu0", "the file has no program 'detct'"), ("detect=gpu7", "there is no device 'gpu7'"), ("detect=tpu", "devices 'tpu'"),
                             ("=gpu0", "names no program"), ("detect=gpu0;detect=cpu", "those of program 'detect' are said twice"), ("gpu0;cpu", "said twice")):
        refused = t.run("mlrun", "run", "p.mlc", "-i", "photo.png", "--devices", devices, code=2).stderr
        assert message in refused, (devices, refused)
    refused = t.run("mlrun", "run", "p.mlc", "-i", "photo.png", "--devices", "detct=gpu0", code=2).stderr
    assert "it has default, default.each, detect, read" in refused, refused
    refused = t.run("mlrun", "run", "p.mlc", "-i", "photo.png", "--devices", "detect=gpu0,cpu;cpu", "--place", "read.0=gpu0", code=2).stderr
    assert "placement" in refused, refused
    assert "tune" in t.run("mlrun", "tune", "p.mlc", "--devices", "detect=gpu0", code=2).stderr


def a_device_that_fails_takes_its_program_alone_to_the_processor(t):
    built(t)
    _, expected, _ = answered(t, "cpu")
    for broken in ("fail_launch=1", "fail_allocation=1", "memory=64"):
        t.env["MLC_FAKE_CUDA"] = broken
        told, found, said = answered(t, "read=gpu0;cpu")
        same(expected, found)
        assert said.count("default.each, read: ") == 1 and "default, detect: " not in said and "default.each, read: " in told["fell_back"], (broken, said, told)
        assert where(told["programs"])["default"] == PROCESSOR, told
    # There is no card: those that name it are refused, as without programs; of itself each runs where it can.
    t.env["MLC_FAKE_CUDA"] = "init=100"
    t.run("mlrun", "run", "p.mlc", "-i", "photo.png", "--devices", "detect=gpu0;cpu", code=2)
    told, found, said = answered(t, "detect=gpu;cpu")
    assert set(where(told["programs"]).values()) == {PROCESSOR} and "default, detect: " in said and "runs on the processor, since no variant" in said, (told, said)
    same(expected, found)
    # A card that no variant is for.
    t.env["MLC_FAKE_CUDA"] = "cc=75"
    told, found, said = answered(t, "detect=gpu0;cpu")
    assert set(where(told["programs"]).values()) == {PROCESSOR} and "default, detect: " in said and "runs on the processor, since no variant" in said, (told, said)


def objectives_are_of_the_programs_that_have_devices(t):
    built(t)
    _, expected, _ = answered(t, "cpu")
    done = t.run("mlrun", *RUN, "--devices", "detect=cpu,gpu0;cpu", "--objective", "latency")
    same(expected, {name: values for name, (_, values) in read(t.dir / "out.npz").items()})
    assert where(json.loads(done.stdout)["programs"])["read"] == PROCESSOR, done.stdout


def models_of_one_section_stay_together(t):
    """Nothing stands between them, so they are one program."""
    w = weights("w", [24, 24], 29)
    square = model([node("MatMul", ["x", "w"], ["z"], "product"), node("Tanh", ["z"], ["y"], "tanh")], [port("x", "f32", ["n", 24])], [port("y", "f32", ["n", 24])], [w], opset=17)
    for name in ("a", "b"):
        (t.dir / f"{name}.onnx").write_bytes(square)
    steps = [{"op": "run", "program": "a", "in": {"x": "rows"}, "out": {"y": "once"}}, {"op": "run", "program": "b", "in": {"x": "once"}, "out": {"y": "twice"}}]
    (t.dir / "q.json").write_text(json.dumps({"mlc_pipeline": 1, "programs": {"a": "a.onnx", "b": "b.onnx"}, "inputs": {"rows": {"accept": ["application/x-npy"]}}, "steps": steps, "outputs": ["twice"]}))
    t.run("mlpack", "build", "q.json", "-o", "q.mlc", "--progress", "none", "--golden-time", "0", "--target", "cuda-sm80,native")
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    write(t.dir / "rows.npz", {"rows": ("f32", (3, 24), [(k * 37 % 101 - 50) / 50 for k in range(72)])})
    run = ("mlrun", "run", "q.mlc", "-i", "rows.npz", "--json", "--devices")
    refused = t.run(*run, "a=gpu0;b=cpu", code=2)
    assert "'default' is compiled from both" in refused.stderr + refused.stdout and "default=gpu0" in refused.stderr + refused.stdout, refused
    told = json.loads(t.run(*run, "a=gpu0;b=cpu;default=gpu0").stdout)
    assert where(told["programs"]) == {"a": DEVICE, "b": PROCESSOR, "default": DEVICE}, told
    assert where(json.loads(t.run(*run, "a=gpu0;cpu").stdout)["programs"]) == {"a": DEVICE, "b": PROCESSOR, "default": DEVICE}


def a_device_has_the_programs_that_it_can_do(t):
    """An operator that no launch of the device can do keeps its own program from it, and no other."""
    names = [f"t{k}" for k in range(MANY)]
    (t.dir / "ops").mkdir()
    (t.dir / "ops" / "wide.mlop").write_text("domain example\nop Wide@1(z: f32[m, n], " + ", ".join(f"{name}: f32[n]" for name in names) + ") -> y: f32[m, n]\n  proc {\n    for m, n { y[m, n] = z[m, n] + " +
                                             " + ".join("(" + " + ".join(f"{name}[n]" for name in names[k:k + 20]) + ")" for k in range(0, MANY, 20)) + " } }\n")
    said = built(t, wide, "--ops", "ops", "--cubin", "none")
    assert said.stderr.count("the variant for cuda-sm80 has no code for 'read', 'default.each': ") == 1 and "bindings" in said.stderr, said.stderr
    checked = t.json("mlpack", "check", "p.json", "--ops", "ops", "--target", "cuda-sm80,native")["devices"][0]
    assert checked["has_variant"] and checked["programs"] == ["detect", "default"] and [n["node"] for n in checked["nodes"] if not n["compiles"]].count("wide (Wide)") == 1, checked
    assert "compiles but for read, default.each, on the processor because of" in t.run("mlpack", "check", "p.json", "--ops", "ops", "--target", "cuda-sm80").stdout
    variants = {v["name"]: v["programs"] for v in t.json("mlpack", "inspect", "p.mlc")["variants"]}
    assert variants["cuda-sm80"] == ["default", "detect"], variants
    assert "cuda-sm80" in (line := next(line for line in t.run("mlpack", "inspect", "p.mlc").stdout.split("\n") if "cuda-sm80" in line and "variant" in line)) and "has code for default, detect" in line, line
    can = {"default": DEVICE, "detect": DEVICE, "default.each": PROCESSOR, "read": PROCESSOR}
    told, expected, _ = answered(t, "cpu")
    assert set(where(told["programs"]).values()) == {PROCESSOR}, told
    told, found, said = answered(t)
    assert where(told["programs"]) == can and "fell_back" not in told and "since no variant" not in said, (told, said)
    same(expected, found)
    # Who names devices is told what does not run there.
    told, found, said = answered(t, "gpu0")
    assert where(told["programs"]) == can and "default.each, read: " in said and "since no variant runs on the devices that were named" in said, (told, said)
    same(expected, found)
    for devices in ("detect=gpu0;cpu", "detect=gpu0;read=cpu"):
        told, found, said = answered(t, devices)
        assert where(told["programs"]) == can and "since no variant" not in said, (told, said)
        same(expected, found)
    explained = t.json("mlrun", "explain", "p.mlc")
    assert where(explained["programs"]) == can and {v["name"]: v["answer"] for v in explained["variants"]}["cuda-sm80"] == "fits", explained
    # A variant by name: of the programs that it has code for.
    refused = t.run("mlrun", *RUN, "--variant", "cuda-sm80", code=5)
    assert "variant 'cuda-sm80' has no code for default.each, read" in refused.stderr + refused.stdout, refused
    told = json.loads(t.run("mlrun", "run", "p.mlc", "--raw", "--program", "detect", "-i", "random", "--dim", "H=6", "--dim", "W=8", "--variant", "cuda-sm80", "--json").stdout)
    assert where(told["programs"]) == {"default": DEVICE, "detect": DEVICE}, told
    refused = t.run("mlrun", *RUN, "--require", "cuda", code=5)
    assert "cuda-sm80   has no code for program 'default.each'" in refused.stderr + refused.stdout, refused
    tested = t.run("mlrun", "selftest", "p.mlc")
    assert "cuda-sm80" in tested.stdout + tested.stderr, tested
    refused = t.run("mlrun", "run", "p.mlc", "--raw", "--program", "read", "-i", "x.npz", "--variant", "cuda-sm80", code=5)
    assert "has no code for default.each, read" in refused.stderr, refused
    # Several devices together, of the programs that they share.
    t.run("mlrun", *RUN, "--objective", "latency")
    same(expected, {name: values for name, (_, values) in read(t.dir / "out.npz").items()})
    # Without the card all is as if the variant was not there.
    t.env["MLC_FAKE_CUDA"] = "init=100"
    told, found, said = answered(t)
    assert set(where(told["programs"]).values()) == {PROCESSOR} and "fell_back" not in told, told
    same(expected, found)
    # A card that fails: its program goes to the processor.
    t.env["MLC_FAKE_CUDA"] = "fail_launch=1"
    told, found, said = answered(t)
    assert "default, detect: the processor (" in said and "default.each" not in said, (told, said)
    same(expected, found)
    del t.env["MLC_FAKE_CUDA"]
    # `add` compiles the same.
    t.run("mlpack", "thin", "p.mlc", "--keep", "portable", "-o", "thin.mlc")
    t.run("mlpack", "add", "thin.mlc", "--from", "p.json", "--ops", "ops", "--target", "cuda-sm80", "-o", "again.mlc")
    assert {v["name"]: v["programs"] for v in t.json("mlpack", "inspect", "again.mlc")["variants"]} == variants


if __name__ == "__main__":
    main([a_device_has_the_programs_that_it_can_do, each_program_runs_where_it_was_told, launches_are_on_the_device_of_their_program, what_is_chosen_is_explained, applications_are_told_the_same, wrong_names_are_refused,
          a_device_that_fails_takes_its_program_alone_to_the_processor, objectives_are_of_the_programs_that_have_devices, models_of_one_section_stay_together])
