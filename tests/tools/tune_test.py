"""mlpack tune and mlpack build --tuned: records, which are followed, and what the file says of it."""
import re
import struct

from onnx_file import model, node, port, tensor
from tool_test import main


def floats(count):
    return struct.pack(f"<{count}f", *(0.01 * (k % 13) - 0.05 for k in range(count)))


def net(t, name="m.onnx", nodes="ab"):
    """y[N, 96] = relu(x[N, 64] w), z = y v, both with weights; node names do not matter to records."""
    all_nodes = [node("MatMul", ["x", "w"], ["p"], nodes[0]), node("Relu", ["p"], ["r"], "r"), node("MatMul", ["r", "v"], ["y"], nodes[1])]
    (t.dir / name).write_bytes(model(all_nodes, [port("x", "f32", ["N", 64])], [port("y", "f32", ["N", 48])],
                                     [tensor("w", "f32", [64, 96], floats(64 * 96)), tensor("v", "f32", [96, 48], floats(96 * 48))]))
    return name


def tune(t, *args, code=0):
    return t.json("mlpack", "tune", *args, "--target", "x86-64-v2", "--time", "0", code=code)


def build(t, out, *args):
    return t.json("mlpack", "build", "m.onnx", "-o", out, "--target", "x86-64-v2", "--no-cache", *args)


def schedules(t, *args):
    t.run("mlpack", "build", "m.onnx", "-o", "dumped.mlc", "--target", "x86-64-v2", "--dump", "schedule", "--dump-dir", "d", "-f", *args)
    return "\n".join(path.read_text() for path in sorted((t.dir / "d").glob("x86-64-v2/*.schedule")))


def with_times(text, favour):
    """Every time becomes 100 us; that of the alternative `favour` of each nest 50."""
    out, at = [], 0
    for line in text.splitlines():
        at = at + 1 if line.startswith("time ") else -1
        out.append(re.sub(r"^time \d+ \d+", f"time {50000 if at == favour else 100000} {50000 if at == favour else 100000}", line))
    return "\n".join(out) + "\n"


def records_are_written_and_added_to(t):
    net(t)
    first = tune(t, "m.onnx", "-o", "m.tuning", "--at", "N=7")
    text = (t.dir / "m.tuning").read_text()
    assert first["nests"] == 2 == first["records"] == text.count("\nnest "), (first, text)
    assert first["target"] == "x86-64-v2" and first["after_ns"] <= first["before_ns"] and not first["warnings"], first
    assert text.startswith("mlpack tuning 1\nsetup x86-64-v2 threads 1 compiler ") and " extents N=7 machine " in text, text
    assert all(int(line.split()[3]) >= 5 for line in text.splitlines() if line.startswith("time ")), text
    assert len({line for line in text.splitlines() if line.startswith("time ")}) >= 4, text
    # The same again takes the place of what was there; other extents are another setup. Names of nodes do not count.
    assert tune(t, "m.onnx", "-o", "m.tuning", "--at", "N=7")["records"] == 2
    net(t, "named.onnx", "pq")
    assert tune(t, "named.onnx", "-o", "m.tuning", "--at", "N=7")["records"] == 2
    assert tune(t, "m.onnx", "-o", "m.tuning", "--at", "N=30", "--run-threads", "2")["records"] == 4
    assert (t.dir / "m.tuning").read_text().count("\nsetup ") == 2
    assert not [path.name for path in t.dir.iterdir() if ".tune" in path.name]  # nothing is left of what was built


def a_build_follows_them(t):
    net(t)
    tune(t, "m.onnx", "-o", "m.tuning", "--at", "N=7")
    text = (t.dir / "m.tuning").read_text()
    plain = build(t, "plain.mlc")
    assert plain["variants"][0]["tuned"] == 0, plain
    (t.dir / "own.tuning").write_text(with_times(text, 0))
    assert build(t, "own.mlc", "--tuned", "own.tuning")["root"] == plain["root"]  # the compiler was right
    (t.dir / "other.tuning").write_text(with_times(text, 1))
    wanted = [block.splitlines()[2].split(" ", 4)[4] for block in text.split("\nnest ")[1:]]
    shown = schedules(t, "--tuned", "other.tuning")
    assert all(schedule in shown for schedule in wanted), (wanted, shown)
    assert not all(schedule in schedules(t) for schedule in wanted)
    tuned = build(t, "tuned.mlc", "--tuned", "other.tuning")
    native = next(v for v in tuned["variants"] if v["name"] == "x86-64-v2")
    assert native["tuned"] == 2 and tuned["root"] != plain["root"], tuned
    assert build(t, "again.mlc", "--tuned", "other.tuning")["root"] == tuned["root"]
    entry = t.json("mlpack", "inspect", "tuned.mlc")["tuning"]
    assert entry == [{"target": "x86-64-v2", "records": 2, "segment": "tuning/x86-64-v2"}], entry
    assert "tuning      x86-64-v2, 2 records" in t.run("mlpack", "inspect", "tuned.mlc").stdout
    t.run("mlpack", "verify", "tuned.mlc", "--deep")
    assert t.run("mlrun", "selftest", "tuned.mlc", "--variant", "x86-64-v2").stdout


def what_does_not_suit_is_not_followed(t):
    net(t)
    tune(t, "m.onnx", "-o", "m.tuning", "--at", "N=7")
    text = with_times((t.dir / "m.tuning").read_text(), 1)
    plain = build(t, "plain.mlc")
    for wrong in ("product nowhere:1 cut ; vectors 16", "no schedule at all", "map d0:1 cut | d1:4 lanes ; vectors 16"):
        lines = text.splitlines()
        for k, line in enumerate(lines):
            if line.startswith("time 50000"):
                lines[k] = " ".join(line.split()[:4]) + " " + wrong
        (t.dir / "wrong.tuning").write_text("\n".join(lines) + "\n")
        assert build(t, "w.mlc", "--tuned", "wrong.tuning", "-f")["root"] == plain["root"], wrong
    # Records of another mlpack.
    (t.dir / "old.tuning").write_text(re.sub(r"compiler [0-9a-f]{64}", "compiler " + 64 * "1", text))
    done = t.run("mlpack", "build", "m.onnx", "-o", "o.mlc", "--target", "x86-64-v2", "--tuned", "old.tuning")
    assert "2 records of 'old.tuning' are of another version of mlpack" in done.stderr and "tuned     nothing" in done.stdout, done
    variants = build(t, "p.mlc", "--tuned", "old.tuning", "--tuned-by-others")["variants"]
    assert [v["tuned"] for v in variants if v["name"] == "x86-64-v2"] == [2], variants


def a_group_is_tuned_as_a_whole(t):
    """Scores, their softmax, and values: nests in one kernel, which have one schedule and one record."""
    nodes = [node("MatMul", ["x", "k"], ["s"], "s"), node("Softmax", ["s"], ["p"], "p"), node("MatMul", ["p", "v"], ["y"], "y")]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", [1500, 32])], [port("y", "f32", [1500, 32])],
                                         [tensor("k", "f32", [32, 512], floats(32 * 512)), tensor("v", "f32", [512, 32], floats(512 * 32))]))
    tune(t, "m.onnx", "-o", "m.tuning")
    text = (t.dir / "m.tuning").read_text()
    groups = [block for block in text.split("\nnest ")[1:] if " group {" in block.splitlines()[1]]
    assert len(groups) == 1, text
    tried = [line.split(" ", 4)[4] for line in groups[0].splitlines() if line.startswith("time ")]
    assert any(re.match(r"group \d+ rows {", schedule) for schedule in tried) and len(tried) == len(set(tried)) >= 3, tried
    plain = build(t, "plain.mlc")
    for favour in range(1, len(tried)):
        (t.dir / "other.tuning").write_text(with_times(text, favour))
        tuned = build(t, "tuned.mlc", "--tuned", "other.tuning", "-f")
        assert tried[favour] in schedules(t, "--tuned", "other.tuning"), tried[favour]
        assert tuned["root"] != plain["root"] and next(v for v in tuned["variants"] if v["name"] == "x86-64-v2")["tuned"] >= 1, tuned
        t.run("mlrun", "selftest", "tuned.mlc", "--variant", "x86-64-v2")  # the golden vector was made without
    # Another number of stages does not suit.
    (t.dir / "less.tuning").write_text(with_times(text, 1).replace(tried[1], "group { map d:1 ; vectors 16 } ; vectors 16"))
    assert tried[0] in schedules(t, "--tuned", "less.tuning")


def errors_say_what_to_do(t):
    net(t)
    assert "help: --at N=1, or" in t.run("mlpack", "tune", "m.onnx", "-o", "m.tuning", "--target", "x86-64-v2", code=2).stderr
    assert "K" in t.run("mlpack", "tune", "m.onnx", "-o", "m.tuning", "--target", "x86-64-v2", "--at", "N=1", "--at", "K=1", code=2).stderr
    for wrong in ("N", "=3", "N=", "N=-1", "N=x"):
        assert "is not NAME=N" in t.run("mlpack", "tune", "m.onnx", "-o", "m.tuning", "--at", wrong, code=2).stderr
    (t.dir / "no.tuning").write_text("a shopping list\n")
    assert "line 1" in t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--tuned", "no.tuning", code=4).stderr
    assert "line 1" in t.run("mlpack", "tune", "m.onnx", "-o", "no.tuning", "--at", "N=1", code=4).stderr
    assert (t.dir / "no.tuning").read_text() == "a shopping list\n"
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--tuned", "absent.tuning", code=3)


if __name__ == "__main__":
    main([records_are_written_and_added_to, a_build_follows_them, what_does_not_suit_is_not_followed, a_group_is_tuned_as_a_whole, errors_say_what_to_do])
