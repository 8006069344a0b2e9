"""Compiled kernels are kept for the next build: what it finds, what it does not believe, and that the file is the same whatever was
found and however many threads compiled."""
import os
import re
import shutil

from onnx_file import model, node, port
from tool_test import Skipped, main

TARGETS = "x86-64-v3,armv8-a,rv64gc"


def write_model(t, name="m.onnx", op="Exp"):
    nodes = [node("Softmax", ["x"], ["s"], axis=-1), node(op, ["s"], ["e"]), node("ReduceSum", ["e"], ["r"], keepdims=1), node("Add", ["r", "x"], ["y"])]
    (t.dir / name).write_bytes(model(nodes, [port("x", "f32", ["n", 8])], [port("y", "f32", ["n", 8])]))


def build(t, *flags, file="m.onnx", out="m.mlc", targets=TARGETS):
    """The answer, and the bytes of the file."""
    built = t.json("mlpack", "build", file, "-o", out, "--target", targets, "--no-sign", "--no-selftest", *flags)
    assert all(phase["seconds"] >= 0 for phase in built["phases"]), built
    names = [phase["name"] for phase in built["phases"]]
    assert names[:2] == ["import", "expand"] and "optimise" in names and names[-1] == "pack", names
    return built["cache"], (t.dir / out).read_bytes()


def entries(t):
    return sorted((t.cache / "mlc/code").iterdir())


def kernels_are_compiled_once(t):
    write_model(t)
    none, fresh = build(t, "--no-cache")
    assert none is None and not t.cache.exists(), none
    first, bytes_first = build(t)
    count = first["compiled"]
    assert first == {"found": 0, "compiled": count} and count > 3, first
    assert len(entries(t)) == count and (t.cache / "mlc/code").stat().st_mode & 0o777 == 0o700, entries(t)
    second, bytes_second = build(t)
    assert second == {"found": count, "compiled": 0}, second
    assert fresh == bytes_first == bytes_second, "the file is the same"
    # Another model finds what it has in common; another target has nothing in common.
    write_model(t, "other.onnx", "Tanh")
    other, _ = build(t, file="other.onnx")
    assert 0 < other["found"] < count and other["compiled"] > 0, other
    assert build(t, targets="x86-64-v2")[0]["found"] == 0
    text = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", TARGETS, "--no-sign").stdout
    assert f"{count} of {count} kernels were compiled before" in text, text
    # Targets that differ in instructions which no kernel uses have its code once, made by this build: no earlier one is asked for it.
    alike, _ = build(t, "--cache", t.dir / "alike", targets="x86-64-v3,x86-64-v3+vnni")
    assert alike["found"] == 0 and alike["compiled"] > 0, alike
    own = t.dir / "elsewhere/kernels"
    assert build(t, "--cache", own)[0]["found"] == 0 and build(t, "--cache", own)[0]["found"] == count


def threads_do_not_show(t):
    write_model(t)
    one, two = build(t, "--no-cache", "--threads", "1")[1], build(t, "--no-cache", "--threads", "2")[1]
    assert one == two == build(t, "--threads", "7")[1] == build(t, "--threads", "1")[1]
    t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "--threads", "0", code=2)


def damaged_entries_are_compiled_again(t):
    write_model(t)
    count = build(t)[0]["compiled"]
    expected = build(t)[1]

    def changed(path):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    def swapped(path):
        path.write_bytes(next(p for p in entries(t) if p != path).read_bytes())

    def linked(path):
        target = path.with_name("kept")
        shutil.copy(path, target)
        path.unlink()
        path.symlink_to(target)

    def pipe(path):
        path.unlink()
        os.mkfifo(path)

    ways = [changed, swapped, linked, pipe, lambda path: path.write_bytes(path.read_bytes()[:-5]), lambda path: path.write_bytes(b""),
            lambda path: path.chmod(0o666)]
    for way in ways:
        way(entries(t)[1])
        again, data = build(t)
        assert again == {"found": count - 1, "compiled": 1}, (ways.index(way), again)
        assert data == expected, ways.index(way)
        assert build(t)[0] == {"found": count, "compiled": 0}, f"way {ways.index(way)}: it was replaced"


def another_code_generator_finds_nothing(t):
    write_model(t)
    count = build(t)[0]["compiled"]
    (t.dir / "bin").mkdir()
    program = bytearray((t.bin / "mlpack").read_bytes())
    note = re.search(rb"\x04\0\0\0[\x08\x10\x14]\0\0\0\x03\0\0\0GNU\0", program)
    generator = re.search(rb"code generator [0-9a-f]{64}\0", program)
    if not note or not generator:
        raise Skipped("mlpack has no build id, or none of its code generator")
    same, other = t.bin, t.dir / "bin"

    def changed(place):
        """As another program, in which this byte differs, has it."""
        program[place] ^= 1
        (other / "mlpack").write_bytes(program)
        (other / "mlpack").chmod(0o755)
        t.bin = other
        answer = build(t)[0]
        t.bin = same
        return answer

    assert changed(note.end()) == {"found": count, "compiled": 0}, "the same code generator in another mlpack"
    assert changed(generator.end() - 2) == {"found": 0, "compiled": count}, "another code generator"
    assert build(t)[0] == {"found": count, "compiled": 0}


def folders_that_cannot_be_used_are_no_error(t):
    write_model(t)
    expected = build(t, "--no-cache")[1]
    (t.dir / "file").write_text("no folder")
    (t.dir / "open").mkdir()
    (t.dir / "open").chmod(0o777)  # anybody may put code there
    folders = ["file/folder", "open", "open/below"]
    if os.geteuid() == 0:
        (t.dir / "foreign").mkdir(mode=0o700)
        os.chown(t.dir / "foreign", 12345, 12345)
        folders.append("foreign")
    for folder in folders:
        cache, data = build(t, "--cache", t.dir / folder)
        assert cache["found"] == cache["compiled"] == 0 and cache["unused"], (folder, cache)
        assert data == expected
        assert "cache     not used: " in t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "armv8-a", "--no-sign", "--cache", t.dir / folder).stdout
    assert not list((t.dir / "open").iterdir())


def the_folder_can_be_shown_and_emptied(t):
    write_model(t)
    count = build(t)[0]["compiled"]
    (t.cache / "mlc/code/notes.txt").write_text("not ours")
    shown = t.json("mlpack", "cache")
    assert shown["kernels"] == count and shown["bytes"] > 0 and shown["folder"] == str(t.cache / "mlc/code"), shown
    assert str(t.cache) in t.run("mlpack", "cache").stdout
    cleared = t.json("mlpack", "cache", "--clear")
    assert cleared["removed"] == count and cleared["kernels"] == 0, cleared
    assert [p.name for p in entries(t)] == ["notes.txt"]
    assert build(t)[0] == {"found": 0, "compiled": count}


if __name__ == "__main__":
    main([kernels_are_compiled_once, threads_do_not_show, damaged_entries_are_compiled_again, another_code_generator_finds_nothing,
          folders_that_cannot_be_used_are_no_error, the_folder_can_be_shown_and_emptied], own_cache=True)
