"""mlrun profile: what launches do and take, the files it writes, strangers."""
import json
import re
import struct

from onnx_file import model, node, port, tensor
from tool_test import main
from untrusted_test import CONST, I64, KERNEL, container as stranger, instruction, module

QUIET = module([instruction(CONST, 0, imm=1)], [(I64, 1)], [1])  # a kernel that does nothing
SHORT = ("--duration", "30ms", "--warmup", "0s")


def floats(count):
    return struct.pack(f"<{count}f", *(0.01 * (k % 7) for k in range(count)))


def product(t, name="m.mlc"):
    """y[N, 48] = relu(x[N, 64] w), and its softmax."""
    nodes = [node("MatMul", ["x", "w"], ["p"], "times"), node("Relu", ["p"], ["y"], "cut"), node("Softmax", ["y"], ["z"], "soft", axis=1)]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["N", 64])], [port("y", "f32", ["N", 48]), port("z", "f32", ["N", 48])],
                                         [tensor("w", "f32", [64, 48], floats(64 * 48))]))
    t.run("mlpack", "build", "m.onnx", "-o", name, "--target", "native")
    return name


def ask(t, *args, code=0):
    return t.json("mlrun", "profile", *args, *SHORT, code=code, stderr=None)


def launches_say_what_they_do_for_the_shapes_they_have(t):
    product(t)
    for n in (1, 100, 5000):
        answer = ask(t, "m.mlc", "--dim", f"N={n}", "--threads", "2")
        assert answer["input"]["extents"] == {"N": n}, answer["input"]
        times = max(answer["launches"], key=lambda l: l["operations"])  # called as the last that is fused into it
        assert times["operations"] >= 2 * n * 64 * 48 and times["operations"] <= 2 * n * 64 * 48 + 40 * n * 48, times
        assert 4 * (64 * 48 + n * 64) <= times["bytes_read"] <= 4 * (64 * 48 + n * 64 + n * 48), times
        assert 4 * n * 48 <= times["bytes_written"] <= 2 * 4 * n * 48, times
        assert not times["of_bytes"] and times["bound"] in ("arithmetic", "L2", "L3", "memory"), times
        assert abs(times["intensity"] * (times["bytes_read"] + times["bytes_written"]) - times["operations"]) < 1, times
        for l in answer["launches"]:
            assert 0 < l["min_ns"] <= l["median_ns"] and l["waited_ns"] >= 0 and l["times"] == 1 and l["threads"] <= max(l["parts"], 1), l
        total, operators = answer["total"], answer["operators"]
        assert total["launches"] == len(answer["launches"]) == sum(o["launches"] for o in operators), answer
        assert abs(total["min_ns"] - sum(l["min_ns"] for l in answer["launches"])) < 1, answer
        assert answer["runs"] >= 3 and answer["run_ns"]["min"] <= answer["run_ns"]["p50"], answer
        assert answer["ceilings"]["operations_per_s"] > 1e8 and answer["ceilings"]["reads_per_s"]["memory"] > 1e8, answer["ceilings"]
        assert answer["ceilings"]["threads"] == answer["threads"], answer


def the_table_lists_what_takes_longest(t):
    product(t)
    text = t.run("mlrun", "profile", "m.mlc", "--dim", "N=2000", *SHORT).stdout
    for words in ("input       random, N=2000\n            x f32[2000,64], random\n", "ceilings    ", "machine     ", "\n  least us", "(Softmax)\n", "all\n"):
        assert words in text, text
    first = text.split("launch\n")[1].split("\n\n")[0].splitlines()
    assert [float(line.split()[0]) for line in first] == sorted((float(line.split()[0]) for line in first), reverse=True), first
    short = t.run("mlrun", "profile", "m.mlc", "--dim", "N=2000", "--top", "0", *SHORT).stdout
    assert re.search(r"\d in \d+ more? \(--top\)|in \d+ more \(--top\)", short), short


def files_have_all_of_it(t):
    product(t)
    done = t.run("mlrun", "profile", "m.mlc", "--dim", "N=300", *SHORT, "--json", "p.json", "--trace", "t.json", "--html", "p.html")
    assert "  least us" in done.stdout
    answer = json.loads((t.dir / "p.json").read_text())
    assert answer["schema"] == "mlc.profile/1" and answer["ok"] and answer["launches"], answer
    events = [e for e in json.loads((t.dir / "t.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert {l["name"] for l in answer["launches"]} <= {e["name"] for e in events}, events
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in events), events
    page = (t.dir / "p.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 2 and "<table>" in page, page
    assert not re.search(r"(src|href)\s*=|url\(|@import|https?:", page), page  # nothing from elsewhere
    assert page.count("<tr><td>") == len(answer["launches"])
    # The file is told from the container wherever it stands; without one standard output has the object.
    t.run("mlrun", "profile", "--json", "q.json", "m.mlc", *SHORT)
    assert json.loads((t.dir / "q.json").read_text())["ok"]
    assert json.loads(t.run("mlrun", "profile", *SHORT, "--json", "m.mlc").stdout)["ok"]
    assert "file is required" in t.run("mlrun", "profile", code=2).stderr
    t.run("mlrun", "profile", "m.mlc", *SHORT, "--html", "absent/p.html", code=3)


def programs_of_several_segments_have_all_their_launches(t):
    nodes = [node("NonZero", ["x"], ["at"], "some"), node("Cast", ["at"], ["y"], "as", to=1)]
    (t.dir / "c.onnx").write_bytes(model(nodes, [port("x", "f32", ["n"])], [port("y", "f32", [1, "m"])]))
    t.run("mlpack", "build", "c.onnx", "-o", "c.mlc", "--target", "native")
    answer = ask(t, "c.mlc", "-i", "random", "--dim", "n=50")
    assert answer["launches"] and {l["function"] for l in answer["launches"]}, answer
    assert all(l["times"] >= 1 for l in answer["launches"]), answer


def strangers_are_profiled_within_their_limits(t):
    product(t)
    t.new_home()
    answer = ask(t, "m.mlc", "--dim", "N=3")
    assert answer["isolated"] and answer["variant"] == "portable", answer
    t.run("mlrun", "profile", "m.mlc", *SHORT, "--json", "p.json", "--trace", "t.json", "--html", "p.html")
    assert json.loads((t.dir / "p.json").read_text())["launches"] and "</html>" in (t.dir / "p.html").read_text()
    # Figures may be anything, names too.
    for a, b, c in ((-1, -(2**63), 0), (2**63 - 1,) * 3, (0, 2**62, 2**63 - 1)):
        figures = f"$3 = const {a} $4 = const {b} $5 = const {c}\n  "
        launch = figures + 'launch 0 (#1) () tiles $0 operations $3 read $4 written $5 of_bytes "</title><script>alert(1)</script>\\"&(("'
        stranger(t, KERNEL % launch, QUIET)
        t.run("mlrun", "profile", "file.mlc", "--raw", "-i", "zeros", *SHORT, "--json", "p.json", "--trace", "t.json", "--html", "p.html")
        found = json.loads((t.dir / "p.json").read_text())["launches"][0]
        assert found["operations"] == (None if a < 0 else a) and found["bytes_read"] == (None if b < 0 else b), found
        assert "<script>alert" not in (t.dir / "p.html").read_text()
        assert any("alert" in e["name"] for e in json.loads((t.dir / "t.json").read_text())["traceEvents"])
    stranger(t, KERNEL % 'launch 0 (#1) () tiles $0 operations $9', QUIET)
    assert t.run("mlrun", "profile", "file.mlc", "--raw", "-i", "zeros", *SHORT, code=(2, 4)).stderr


if __name__ == "__main__":
    main([launches_say_what_they_do_for_the_shapes_they_have, the_table_lists_what_takes_longest, files_have_all_of_it,
          programs_of_several_segments_have_all_their_launches, strangers_are_profiled_within_their_limits])
