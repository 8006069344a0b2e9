"""Models on several devices together: the processor and a device of this machine, lavapipe if there is no other. Wherever the cuts
of the file run, answers are those of the processor. Skipped where no device is found."""
import json
import re

from npz_file import write
from onnx_file import model, node, port
from together_model import MODES, answers, build, explained, inputs, pretend, remembered, same
from tool_test import Skipped, main


def need_device(t):
    devices = json.loads(t.run("mlrun", "probe", "--json").stdout)["devices"]
    if not any(by["api"] == "vulkan" for d in devices for by in d["drivers"]):
        raise Skipped("no device of Vulkan")


def segments(t, variant):
    plan = t.run("mlpack", "inspect", "m.mlc", "--plan", "--variant", variant).stdout
    return re.findall(r'^function "(main[^"]*)"', plan, re.M), plan


def variants_of_devices_bring_cuts(t):
    report = build(t)
    native = next(v["name"] for v in report["variants"] if not v["name"].startswith("vulkan-") and v["name"] != "portable")
    found = [segments(t, name)[0] for name in ("vulkan-base", "vulkan-subgroup", native, "portable")]
    assert found[0][:4] == ["main", "main.*", "main.0", "main.1"], found
    assert all(names == found[0] for names in found), found
    calls = re.findall(r'call "(main\.\d+)"', segments(t, native)[1])
    assert calls == [f"main.{k}" for k in range(len(found[0]) - 2)], calls
    kernels = {v["name"]: v["kernels"] for v in report["variants"]}
    build(t, "native")
    assert segments(t, native)[0] == ["main"]
    build(t, "vulkan,native", rows=5)
    assert segments(t, native)[0][:2] == ["main", "main.*"] and kernels[native] > 0


def every_placement_answers_as_the_processor_does(t):
    need_device(t)
    build(t)
    parts = [name for name in segments(t, "vulkan-base")[0] if re.fullmatch(r"main\.\d+", name)]
    assert len(parts) >= 2, parts
    for rows in (1, 40):
        inputs(t, rows)
        _, expected = answers(t, "--devices", "cpu")
        placements = [[p] for p in parts] + [parts[::2], parts[1:], parts]
        for placed in placements:
            report, found = answers(t, "--devices", "cpu,gpu0", "--place", ",".join(f"{p}=gpu0" for p in placed))
            assert report["device"] == "cpu,gpu0", report
            same(expected, found, placed)
        for objective in ("latency", "memory", "throughput"):
            _, found = answers(t, "--devices", "cpu,gpu0", "--objective", objective)
            same(expected, found, objective)


def every_mode_answers_as_the_processor_does(t):
    need_device(t)
    build(t)
    expected = {}
    for rows in (1, 5, 40):
        inputs(t, rows)
        _, expected[rows] = answers(t, "--devices", "cpu")
    for mode, (objective, ns) in MODES.items():
        explained(t, objective)
        pretend(t, ns)
        report = explained(t, objective)
        assert {stage["mode"] for stage in report["stages"]} == {mode}, (mode, report["stages"])
        devices = {stage["device"] for stage in report["stages"]}
        assert devices == ({"cpu"} if mode == "one device" else {"cpu", "gpu0"}), (mode, devices)
        for rows in expected:
            inputs(t, rows)
            _, found = answers(t, "--devices", "cpu,gpu0", "--objective", objective)
            same(expected[rows], found, (mode, rows))
        done = t.run("mlrun", "bench", "m.mlc", "-i", "in.npz", "--devices", "cpu,gpu0", "--objective", objective, "--sessions", "3", "--duration", "200ms",
                     "--warmup", "50ms", "--json")
        assert json.loads(done.stdout)["sessions"] == 3 and "warning" not in done.stderr, done.stderr


def a_device_gives_equal_bits_to_rows_whatever_their_number_is(t):
    need_device(t)
    build(t)
    values = [(k * 37 % 101 - 50) / 50 for k in range(40 * 24)]

    def rows(first, end):
        write(t.dir / "in.npz", {"x": ("f32", (end - first, 24), values[first * 24:end * 24])})
        return answers(t, "--devices", "gpu0")[1]

    whole = rows(0, 40)
    for cut in (13, 20):
        head, tail = rows(0, cut), rows(cut, 40)
        assert all(list(whole[name]) == list(head[name]) + list(tail[name]) for name in whole), cut


def rows_by_themselves_are_found(t):
    build(t, "native")
    program = json.loads(t.run("mlpack", "inspect", "m.mlc", "--json").stdout)["programs"][0]
    assert program["batch"] == "n", program
    assert re.search(r"extents +n .*rows by themselves", t.run("mlpack", "inspect", "m.mlc").stdout)
    nodes = [node("ReduceMean", ["x"], ["m"], "mean", axes=[0], keepdims=1), node("Sub", ["x", "m"], ["y"], "sub")]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["n", 24])], [port("y", "f32", None)], [], opset=17))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--target", "native")
    assert "batch" not in json.loads(t.run("mlpack", "inspect", "m.mlc", "--json").stdout)["programs"][0]


def what_was_measured_is_remembered(t):
    need_device(t)
    build(t)
    first = explained(t, "latency")["stages"]
    assert explained(t, "latency")["stages"] == first
    text = remembered(t).read_text()
    assert text.startswith("mlc-measured 1\n"), text
    for damaged in ("", "mlc-measured 1\nnonsense\n", text[:-5], text.replace("1", "x")):
        remembered(t).write_text(damaged)
        explained(t, "latency")
        assert re.fullmatch(r"mlc-measured 1\n([0-9a-f]{64}( [0-9]+| -)*\n)+", remembered(t).read_text()), damaged
    # Times that cannot be: answers are right nevertheless.
    inputs(t, 7)
    _, expected = answers(t, "--devices", "cpu")
    for objective in ("latency", "throughput"):
        explained(t, objective)
        pretend(t, lambda s, part, n: (s * 7919 + part * 104729) % 1000)
        _, found = answers(t, "--devices", "cpu,gpu0", "--objective", objective)
        same(expected, found, objective)


def sessions_beside_each_other_are_divided_alike(t):
    need_device(t)
    build(t)
    t.run("mlrun", "bench", "m.mlc", "--devices", "cpu,gpu0", "--place", "main.0=gpu0", "--sessions", "2", "--duration", "200ms", "--warmup", "100ms")
    t.run("mlrun", "bench", "m.mlc", "--devices", "gpu0", "--sessions", "3", "--duration", "200ms", "--warmup", "100ms")


def limits_and_profiles_are_of_all_devices(t):
    need_device(t)
    build(t)
    inputs(t, 40)
    _, expected = answers(t, "--devices", "cpu")
    place = ("--devices", "cpu,gpu0", "--place", "main.1=gpu0")
    _, found = answers(t, *place, "--memory-limit", "64M")
    same(expected, found, "limit")
    done = t.run("mlrun", "run", "m.mlc", "-i", "in.npz", *place, "--memory-limit", "64K", code=7)
    assert "E6006" in done.stderr, done.stderr
    report = json.loads(t.run("mlrun", "profile", "m.mlc", "-i", "in.npz", *place, "--duration", "200ms", "--warmup", "50ms", "--json").stdout)
    assert {launch["device"] for launch in report["launches"]} == {"cpu", "gpu0"}, report["launches"]
    assert all(launch["min_ns"] > 0 for launch in report["launches"] if launch["kernel"] is not None), report["launches"]


def explain_says_what_runs_where_and_why(t):
    need_device(t)
    build(t)
    report = json.loads(t.run("mlrun", "explain", "m.mlc", "--json", "--devices", "cpu,gpu0", "--place", "main.1=gpu0").stdout)
    assert [s["device"] for s in report["stages"]][:2] == ["cpu", "gpu0"], report["stages"]
    assert report["stages"][1]["variant"].startswith("vulkan-") and report["stages"][1]["segments"].startswith("main.1"), report["stages"]
    # A device of software gains nothing beside the processor; whoever wants little memory there runs on it alone.
    for objective in ("latency", "memory"):
        report = json.loads(t.run("mlrun", "explain", "m.mlc", "--json", "--devices", "cpu,gpu0", "--objective", objective).stdout)
        for stage in report["stages"]:
            assert stage["estimate_ns"] > 0 and stage["reason"], stage
            other = "gpu0" if stage["device"] == "cpu" else "cpu"
            assert f"ms on {other}" in stage["reason"], stage
    assert [s["device"] for s in report["stages"]] == ["gpu0"], report["stages"]
    chosen = lambda *options: re.findall(r"^chosen +(\S+)", t.run("mlrun", "explain", "m.mlc", "--devices", "cpu,gpu0", *options).stdout, re.M)
    assert chosen("--objective", "memory") == [report["stages"][0]["variant"]], chosen("--objective", "memory")
    assert len(chosen("--place", "main.1=gpu0")) == 2 and len(chosen()) == 1
    text = t.run("mlrun", "explain", "m.mlc", "--devices", "cpu,gpu0", "--place", "main.1=gpu0").stdout
    assert re.search(r"^stage +main\.1\b.* gpu0", text, re.M), text


def what_cannot_be_placed_is_said(t):
    build(t)
    write(t.dir / "in.npz", {"x": ("f32", (2, 24), [0.5] * 48)})
    assert "no variant runs on the devices" in t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "cpu", "--place", "main.1=gpu0", code=2).stderr
    t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--objective", "fame", code=2)
    need_device(t)
    for place, expected in (("main.99=gpu0", "main.99"), ("main.1=gpu7", "gpu7"), ("main.1", "SEGMENT=DEVICE")):
        done = t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "cpu,gpu0", "--place", place, code=2)
        assert expected in done.stderr, done.stderr


main([variants_of_devices_bring_cuts, every_placement_answers_as_the_processor_does, every_mode_answers_as_the_processor_does,
      a_device_gives_equal_bits_to_rows_whatever_their_number_is,
      rows_by_themselves_are_found, what_was_measured_is_remembered, sessions_beside_each_other_are_divided_alike, limits_and_profiles_are_of_all_devices,
      explain_says_what_runs_where_and_why, what_cannot_be_placed_is_said])
