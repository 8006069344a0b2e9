"""mlrun bench: what it feeds, several sessions, its forms of output."""
import csv
import io
import struct

from mlrun_test import container
from onnx_file import model, node, port
from tool_test import main

SHORT = ("--duration", "20ms", "--warmup", "0s")


def rows(t, name="rows.mlc", dim=()):
    """y = x[N, 4] + x, without a pipeline; its golden vector has the least N."""
    (t.dir / "m.onnx").write_bytes(model([node("Add", ["x", "x"], ["y"])], [port("x", "f32", ["N", 4])], [port("y", "f32", ["N", 4])]))
    t.run("mlpack", "build", "m.onnx", "-o", name, "--target", "native", *dim)
    return name


def ask(t, *args, code=0):
    return t.json("mlrun", "bench", *args, *SHORT, code=code, stderr=None)


def dim_is_what_is_fed(t):
    rows(t)
    golden = ask(t, "rows.mlc")["input"]
    assert golden["from"] == "golden" and set(golden["extents"]) == {"N"}, golden
    for words in ((), ("--raw",), ("-i", "random"), ("-i", "zeros")):
        fed = ask(t, "rows.mlc", *words, "--dim", "N=32")["input"]
        array = {"name": "x", "type": "f32[32,4]", "from": words[1] if "-i" in words else "random"}
        assert fed == {"from": "given" if "-i" in words else "random", "extents": {"N": 32}, "arrays": [array]}, fed
    (t.dir / "x.npy").write_bytes(npy(5))
    assert ask(t, "rows.mlc", "-i", "x.npy")["input"]["arrays"] == [{"name": "x", "type": "f32[5,4]", "from": "x.npy"}]
    assert "input       random, N=7\n            x f32[7,4], random\n" in t.run("mlrun", "bench", "rows.mlc", "--dim", "N=7", *SHORT).stdout
    assert "input       golden, N=" in t.run("mlrun", "bench", "rows.mlc", *SHORT).stdout
    # Larger arrays take more memory: the input alone has 16 bytes a row.
    small, large = (ask(t, "rows.mlc", "--dim", f"N={n}")["peak_rss_bytes"] for n in (100, 1000000))
    assert large > small + 16000000, (small, large)


def a_name_that_no_extent_has_is_refused(t):
    rows(t)
    for words in ((), ("--raw",), ("-i", "random")):
        answer = ask(t, "rows.mlc", *words, "--dim", "M=3", code=2)
        assert "unknown extent 'M'" in answer["message"] and "x   f32[N,4]" in answer["facts"], answer
    rows(t, "fixed.mlc", ("--dim", "N=3"))
    answer = ask(t, "fixed.mlc", "--dim", "N=3", code=2)
    assert "all extents of the inputs are fixed" in answer["facts"], answer


def a_pipeline_is_fed_by_its_extents_too(t):
    container(t)
    extents = ask(t, "digits.mlc")["input"]["extents"]
    assert len(extents) == 2, extents
    wanted = {name: 50 for name in extents}
    words = [word for name in wanted for word in ("--dim", f"{name}=50")]
    assert ask(t, "digits.mlc", *words)["input"]["extents"] == wanted


def several_sessions_run_side_by_side(t):
    rows(t)
    answer = ask(t, "rows.mlc", "--sessions", "3", "--threads", "1")
    assert answer["sessions"] == 3 and answer["threads"] == 1 and answer["samples"] >= 3, answer
    times = answer["latency_ns"]
    assert times["min"] <= times["p50"] <= times["p90"] <= times["p95"] <= times["p99"] <= times["p999"] <= times["max"], times
    assert abs(answer["throughput_per_s"] - answer["samples"] / answer["seconds"]) < 1e-3 * answer["throughput_per_s"], answer
    assert "3 sessions together" in t.run("mlrun", "bench", "rows.mlc", "--sessions", "3", *SHORT).stdout
    ask(t, "rows.mlc", "--sessions", "0", code=2)
    # A stranger's file too, and where a session fails all of them end.
    t.new_home()
    assert ask(t, "rows.mlc", "--sessions", "2")["isolated"]
    assert ask(t, "rows.mlc", "--sessions", "2", "--dim", "N=100000", "--time-limit", "1us", code=8)["message"]


def csv_has_the_figures_of_the_json(t):
    rows(t)
    lines = list(csv.reader(io.StringIO(t.run("mlrun", "bench", "rows.mlc", "--csv", *SHORT).stdout)))
    assert len(lines) == 2 and len(lines[0]) == len(lines[1]) == len(set(lines[0])), lines
    found = dict(zip(*lines))
    answer = ask(t, "rows.mlc")
    wanted = {name for name, value in answer.items() if not isinstance(value, (dict, list))} - {"schema", "ok", "isolated"}
    wanted |= {f"{name}_ns" for name in answer["latency_ns"]} | set(answer["env"])
    assert set(found) == wanted, set(found) ^ wanted
    assert found["variant"] == answer["variant"] and int(found["min_ns"]) <= int(found["max_ns"]), found
    t.run("mlrun", "bench", "rows.mlc", "--csv", "--json", code=2)


def the_machine_is_in_the_report(t):
    rows(t)
    env = ask(t, "rows.mlc")["env"]
    assert set(env) == {"cpu", "arch", "os", "cpus", "cores", "governor", "load", "mlrun"} and env["cpus"] >= 1 and env["cores"] >= 1, env
    assert t.run("mlrun", "--version").stdout.split()[1] == env["mlrun"], env
    text = t.run("mlrun", "bench", "rows.mlc", *SHORT).stdout
    assert f"mlrun {env['mlrun']}" in text and "load " in text and "\nvariant     " in text, text


def made_up_inputs_keep_to_the_memory_limit(t):
    rows(t)
    huge = "N=1000000000000"
    for words in ((), ("-i", "random"), ("-i", "zeros")):
        answer = ask(t, "rows.mlc", *words, "--dim", huge, code=7)
        assert answer["code"] == "E6006" and "x f32[1000000000000,4]" in answer["message"], answer
        answer = ask(t, "rows.mlc", *words, "--dim", "N=1000000", "--memory-limit", "8M", code=7)
        assert answer["code"] == "E6006" and "16000000 bytes" in answer["message"], answer
    # The limit is one for inputs and session: each alone would fit.
    (t.dir / "x.npy").write_bytes(npy(1000000))
    made_up = ("run", "rows.mlc", "-i", "random", "--dim", "N=1000000", "-o", "y.npz", "--memory-limit")
    t.json("mlrun", *made_up, "40M", stderr=None)
    answer = t.json("mlrun", *made_up, "24M", code=7, stderr=None)
    assert answer["code"] == "E6006" and "inputs" not in answer["message"], answer
    # What decoding takes counts too: the file and what is made of it.
    given = ("run", "rows.mlc", "-i", "x.npy", "-o", "y.npz", "--memory-limit")
    t.json("mlrun", *given, "40M", stderr=None)
    answer = t.json("mlrun", *given, "30M", code=7, stderr=None)
    assert "npy: f32[1000000,4] may take 16 MiB" in answer["message"], answer
    answer = t.json("mlrun", *given, "15M", code=7, stderr=None)
    assert "'x.npy' has 16000128 bytes, at most 15728640 are allowed for inputs" in answer["message"], answer
    t.new_home()  # what a stranger's file is fed keeps to the limit of strangers
    answer = ask(t, "rows.mlc", "-i", "random", "--dim", "N=13000000", code=7)
    assert answer["code"] == "E6006" and "201326592" in answer["message"], answer


def npy(rows_of_four):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows_of_four}, 4), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() + bytes(16 * rows_of_four)


if __name__ == "__main__":
    main([dim_is_what_is_fed, a_name_that_no_extent_has_is_refused, a_pipeline_is_fed_by_its_extents_too,
          several_sessions_run_side_by_side, csv_has_the_figures_of_the_json, the_machine_is_in_the_report,
          made_up_inputs_keep_to_the_memory_limit])
