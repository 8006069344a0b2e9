"""mlrun tune: what is measured is remembered, what fails is left out, and a list that lies changes speed alone."""
import signal
import struct
import subprocess

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


def what_runs_apart_remembers_nothing(t):
    built(t)
    t.new_home()
    refused = t.json("mlrun", "tune", "m.mlc", code=11, stderr=None)
    assert "remembers nothing" in refused["message"] and not choices(t).exists(), refused


if __name__ == "__main__":
    main([a_measurement_is_remembered_until_it_is_forgotten, damaged_foreign_and_read_only_lists_change_nothing,
          a_variant_that_faults_is_left_out_from_then_on, what_runs_apart_remembers_nothing])
