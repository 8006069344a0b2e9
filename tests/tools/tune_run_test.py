"""mlrun tune: what is measured is remembered, what fails is left out, and a list that lies changes speed alone."""
import json
import signal
import struct
import subprocess

import npz_file
import onnx_file
from tool_test import Skipped, main


def built(t):
    w = onnx_file.tensor("w", "f32", [64, 64], struct.pack("<4096f", *[((k * 7) % 13 - 6) / 4 for k in range(4096)]))
    (t.dir / "m.onnx").write_bytes(onnx_file.model([onnx_file.node("MatMul", ["x", "w"], ["y"])], [onnx_file.port("x", "f32", ["N", 64])], [onnx_file.port("y", "f32", ["N", 64])], [w]))
    t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "x86-64-v1,x86-64-v2,armv8-a,rv64gc,portable")


def choices(t):
    return t.state / "mlc/choices"


def explained(t):
    answer = t.json("mlrun", "explain", "m.mlc", stderr=None)
    return answer["chosen"], {v["name"]: v for v in answer["variants"]}


def a_measurement_is_remembered_until_it_is_forgotten(t):
    built(t)
    first, before = explained(t)
    assert not any("measured_ns" in v for v in before.values()), before
    fitting = sum(v["answer"] == "fits" for v in before.values())
    tuned = t.json("mlrun", "tune", "m.mlc", "--duration", "1ms", stderr=None)
    assert len(tuned["variants"]) == min(3, fitting) and tuned["remembered"], tuned
    assert all(v["rounds"] >= 15 and v["p25_ns"] <= v["p50_ns"] <= v["p75_ns"] for v in tuned["variants"]), tuned
    chosen, after = explained(t)
    assert chosen == tuned["chosen"] and after[chosen]["remembered"], after
    assert {name for name, v in after.items() if "measured_ns" in v} == {v["name"] for v in tuned["variants"]}, after
    assert choices(t).stat().st_mode & 0o777 == 0o600
    # Another one that the list names is taken as well; one that the file has not is passed over.
    text = choices(t).read_text()
    choices(t).write_text("\n".join(line.replace("chosen", "measured") if line.startswith("chosen") else line.replace("measured", "chosen") for line in text.splitlines() if "portable" in line or line.startswith("chosen")))
    other = next((v["name"] for v in tuned["variants"] if v["name"] == "portable" != chosen), None)
    assert explained(t)[0] == (other or first)
    assert t.json("mlrun", "tune", "m.mlc", "--forget", stderr=None)["forgotten"]
    assert not t.json("mlrun", "tune", "m.mlc", "--forget", stderr=None)["forgotten"]
    assert explained(t) == (first, before)


def damaged_foreign_and_read_only_lists_change_nothing(t):
    built(t)
    t.json("mlrun", "tune", "m.mlc", "--duration", "1ms", stderr=None)
    first = explained(t)[0]
    good = choices(t).read_bytes()
    for text in (b"", b"\xff" * 100_000, good[: len(good) // 2], good.replace(b" ", b"  "), b"chosen " * 1000, b"x" * (1 << 20)):
        choices(t).write_bytes(text)
        t.run("mlrun", "run", "m.mlc", "-i", "random")
        explained(t)
    choices(t).write_bytes(good)
    choices(t).chmod(0o666)  # others may change it
    assert not any("measured_ns" in v for v in explained(t)[1].values())
    choices(t).unlink()
    choices(t).mkdir()
    t.run("mlrun", "run", "m.mlc", "-i", "random")
    told = t.json("mlrun", "tune", "m.mlc", "--duration", "1ms", stderr=None)
    assert not told["remembered"] and told["chosen"] == first, told


def a_variant_that_faults_is_left_out_from_then_on(t):
    built(t)
    first, before = explained(t)
    if first == "portable":
        raise Skipped("no native variant of the file fits this machine")
    for number, words in ((signal.SIGILL, "illegal instruction"), (signal.SIGSEGV, "memory fault")):
        started = subprocess.Popen([t.bin / "mlrun", "bench", "m.mlc", "--duration", "100s", "--warmup", "0s"], cwd=t.dir, env=t.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = started.stderr.readline()  # what runs
        assert first in said, said
        started.send_signal(number)
        out, err = started.communicate(timeout=60)
        assert started.returncode == -number and words in err and "until mlrun tune --forget" in err, (started.returncode, err)
        done = t.run("mlrun", "run", "m.mlc", "-i", "random")
        assert f"{first} is left out since it failed here: {words}" in done.stderr, done.stderr
        chosen, after = explained(t)
        assert chosen != first and words in after[first]["reason"], after
        refused = t.run("mlrun", "run", "m.mlc", "-i", "random", "--variant", first, code=5)
        assert "mlrun tune --forget" in refused.stderr, refused.stderr
        t.json("mlrun", "tune", "m.mlc", "--forget", stderr=None)
        assert explained(t) == (first, before)


def each_program_takes_what_was_measured_for_it(t):
    for name in ("a", "b"):
        scale = onnx_file.tensor("s", "f32", [64], struct.pack("<64f", *range(64)))
        (t.dir / f"{name}.onnx").write_bytes(onnx_file.model([onnx_file.node("Mul", ["x", "s"], ["y"])], [onnx_file.port("x", "f32", ["N", 64])], [onnx_file.port("y", "f32", ["N", 64])], [scale]))
    steps = {name: [{"op": "run", "program": name, "in": {"x": "rows"}, "out": {"y": "y"}}] for name in ("a", "b")}
    pipelines = {f"of_{name}": {"inputs": {"rows": {"accept": ["application/x-npy"]}}, "steps": steps[name], "outputs": ["y"]} for name in ("a", "b")}
    (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, "programs": {"a": "a.onnx", "b": "b.onnx"}, "pipelines": pipelines}))
    t.json("mlpack", "build", "p.json", "-o", "m.mlc", "--target", "x86-64-v1,x86-64-v2,armv8-a,rv64gc,portable")
    names = [p["name"] for p in t.json("mlrun", "explain", "m.mlc", stderr=None)["programs"]]
    tuned = t.json("mlrun", "tune", "m.mlc", "--duration", "1ms", "--dim", "N=3", stderr=None)
    assert [p["name"] for p in tuned["programs"]] == names and len(names) >= 2 and tuned["remembered"] and "chosen" not in tuned, tuned
    assert all(p["chosen"] in {v["name"] for v in p["variants"]} for p in tuned["programs"]), tuned
    found = {p["name"]: p for p in t.json("mlrun", "explain", "m.mlc", stderr=None)["programs"]}
    assert all(found[p["name"]]["variant"] == p["chosen"] and found[p["name"]]["remembered"] for p in tuned["programs"]), (found, tuned)
    refused = t.json("mlrun", "tune", "m.mlc", "--dim", "M=3", code=2, stderr=None)
    assert "'M'" in refused["message"], refused

    # Written by hand: another variant for one of them. Each runs in its own.
    fitting = [v["name"] for v in tuned["programs"][0]["variants"]]
    if len(fitting) < 2:
        raise Skipped("one variant of the file fits this machine")
    root_and_machine = choices(t).read_text().split(" ")[1:3]
    lines = {"of_a": fitting[0], "of_b": fitting[1]}
    choices(t).write_text("".join(f"chosen {' '.join(root_and_machine)} {variant} 7 {name}\n" for name, variant in lines.items()))
    found = {p["name"]: p for p in t.json("mlrun", "explain", "m.mlc", stderr=None)["programs"]}
    assert {name: found[name]["variant"] for name in lines} == lines and all(found[name]["measured_ns"] == 7 for name in lines), found
    (t.dir / "in.npy").write_bytes(npz_file.npy("f32", [2, 64], [1.0] * 128))
    for name, variant in lines.items():
        ran = t.json("mlrun", "run", "m.mlc", "--pipeline", name, "-i", "in.npy", stderr=None)
        assert {p["name"]: p["variant"] for p in ran["programs"]}[name] == variant, ran
    t.run("mlrun", "selftest", "m.mlc")
    # What a version wrote that measured one program for all holds for all.
    choices(t).write_text(f"chosen {' '.join(root_and_machine)} {fitting[1]} 7\n")
    found = t.json("mlrun", "explain", "m.mlc", stderr=None)["programs"]
    assert all(p["variant"] == fitting[1] and p["remembered"] for p in found), found
    # One program alone leaves the others as they are.
    one = t.json("mlrun", "tune", "m.mlc", "--raw", "--program", "of_a", "--duration", "1ms", stderr=None)
    found = {p["name"]: p for p in t.json("mlrun", "explain", "m.mlc", stderr=None)["programs"]}
    assert found["of_a"]["variant"] == one["chosen"] and found["of_b"]["variant"] == fitting[1], found


def what_runs_apart_remembers_nothing(t):
    built(t)
    t.new_home()
    refused = t.json("mlrun", "tune", "m.mlc", code=11, stderr=None)
    assert "remembers nothing" in refused["message"] and not choices(t).exists(), refused


if __name__ == "__main__":
    main([a_measurement_is_remembered_until_it_is_forgotten, damaged_foreign_and_read_only_lists_change_nothing,
          a_variant_that_faults_is_left_out_from_then_on, each_program_takes_what_was_measured_for_it, what_runs_apart_remembers_nothing])
