"""Ends that nobody likes: memory, disk or file size used up, Ctrl-C, and what could have been known before compiling. The
exit code is a documented one, and nothing half-written stays."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

import onnx_file
from tool_test import Skipped, main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"
MB = 1 << 20


def scratch(t):
    """Folders that hold nothing but what a build leaves: its output and its temporary files."""
    for name in ("out", "tmp"):
        shutil.rmtree(t.dir / name, ignore_errors=True)
        (t.dir / name).mkdir()
    t.env["TMPDIR"] = str(t.dir / "tmp")


def left(t):
    return sorted(str(p.relative_to(t.dir)) for name in ("out", "tmp") for p in (t.dir / name).rglob("*"))


def build(t, *flags, **limits):
    """Runs a build under limits of resources; what comes back is what subprocess.run gives."""
    def limit():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))
    command = [t.bin / "mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", "out/d.mlc", *flags]
    return subprocess.run([*t.wrapper, *map(str, command)], cwd=t.dir, env=t.env, capture_output=True, text=True, timeout=300,
                          preexec_fn=limit, stdin=subprocess.DEVNULL)


def least_that_loads(t):
    """Megabytes of addresses that the system's loader wants for the libraries of mlpack; with less it is the one that complains."""
    for size in range(100, 1000, 4):
        done = subprocess.run([str(t.bin / "mlpack"), "--version"], capture_output=True, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size * MB, size * MB)))
        if done.returncode == 0:
            return size
        assert done.returncode in (7, 127), (size, done)
    raise AssertionError("mlpack does not start")


def little_memory_is_an_error_and_leaves_nothing(t):
    scratch(t)
    t.run("mlpack", "keygen")
    codes = {}
    starts = least_that_loads(t)
    for size in [*range(starts, starts + 200, 25), starts + 400, starts + 800]:
        done = build(t, "--target", "native,armv8-a", RLIMIT_AS=size * MB)
        codes[size] = done.returncode
        assert done.returncode in (0, 7), (size, done.returncode, done.stdout, done.stderr)
        assert left(t) == (["out/d.mlc"] if done.returncode == 0 else []), (size, left(t))
        if done.returncode == 7:
            assert done.stderr.startswith("error: ") and "help: " in done.stderr, (size, done.stderr)
        else:
            t.run("mlpack", "verify", "out/d.mlc", "--deep")
            os.unlink(t.dir / "out/d.mlc")
    assert codes[starts] == 7, "what loads the libraries is too little for LLVM: else the limits of this test say nothing"
    assert codes[max(codes)] == 0, "1 GB is enough for a small model"
    done = build(t, "--json", RLIMIT_AS=(starts + 8) * MB)
    answer = json.loads(done.stdout)
    assert done.returncode == 7 and done.stderr == "", done.stderr
    assert (answer["schema"], answer["ok"], answer["exit_code"]) == ("mlc.build/1", False, 7) and answer["help"], answer


def other_commands_with_little_memory_end_with_7_too(t):
    big = onnx_file.tensor("w", "f32", [1 << 20, 64], b"\1\2\3\4" * (64 << 20))
    nodes = [onnx_file.node("Add", ["x", "w"], ["y"], "add")]
    (t.dir / "m.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", [64])], [onnx_file.port("y", "f32", [1 << 20, 64])], [big]))
    done = subprocess.run([str(t.bin / "mlpack"), "check", "m.onnx"], cwd=t.dir, env=t.env, capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 * MB, 400 * MB)))
    assert done.returncode == 7 and done.stderr.startswith("error: "), (done.returncode, done.stderr)


def files_that_may_not_grow_are_an_error_and_leave_nothing(t):
    scratch(t)
    t.run("mlpack", "keygen")
    assert build(t, "--target", "native").returncode == 0
    whole = (t.dir / "out/d.mlc").stat().st_size
    os.unlink(t.dir / "out/d.mlc")
    for size in (0, 1000, 5000, whole // 2, whole - 1):
        done = build(t, "--target", "native", RLIMIT_FSIZE=size)
        assert done.returncode == 7 and done.stderr.startswith("error: "), (size, done.returncode, done.stderr)
        assert left(t) == [], (size, left(t))
    assert build(t, "--target", "native", RLIMIT_FSIZE=whole).returncode == 0


def a_full_disk_is_an_error_and_leaves_nothing(t):
    scratch(t)
    t.run("mlpack", "keygen")
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", t.dir / "out"], capture_output=True, check=False).returncode != 0:
        raise Skipped("no file system can be mounted")
    for size in ("8k", "64k"):
        for full in ("out", "tmp"):
            t.wrapper = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={size} none "{t.dir}/{full}" && "$@"; code=$?; ls -A out tmp >listing; exit $code', "-"]
            done = build(t, "--target", "native,armv8-a")
            assert done.returncode == 7 and done.stderr.startswith("error: "), (size, full, done.returncode, done.stderr)
            assert (t.dir / "listing").read_text().split() == ["out:", "tmp:"], (size, full, (t.dir / "listing").read_text())


def stopped_with(t, found, *flags):
    """A build that stands still while `found` is there: (process, its children). Such a moment is waited for, in build after build."""
    deadline = time.monotonic() + 600  # of a machine that is busy with other things
    while time.monotonic() < deadline:
        scratch(t)  # a build that came to its end has left its file
        command = [t.bin / "mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", "out/d.mlc", *flags]
        process = subprocess.Popen(list(map(str, command)), cwd=t.dir, env=t.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        while process.poll() is None:
            if found():
                process.send_signal(signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)
                if found():
                    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                    return process, children
                process.send_signal(signal.SIGCONT)
    raise AssertionError("no build had such a moment")


def ctrl_c_leaves_nothing(t):
    t.run("mlpack", "keygen")
    def linking():
        return any((t.dir / "tmp").iterdir())
    def writing():
        return any(".tmp" in p.name for p in (t.dir / "out").iterdir())
    for found, number in ((linking, signal.SIGINT), (linking, signal.SIGTERM), (writing, signal.SIGINT), (writing, signal.SIGTERM),
                          (writing, signal.SIGHUP)):
        process, children = stopped_with(t, found, "--target", "native,armv8-a")
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        assert process.wait(timeout=60) == -number, (found.__name__, number, process.returncode)
        assert left(t) == [], (found.__name__, number, left(t))
        deadline = time.monotonic() + 60  # a child is ended by the end of its parent, a moment after it
        while any(map(alive, children)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(alive, children)), "the self-test goes on without its parent"


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def what_is_wrong_is_told_before_anything_is_compiled(t):
    shutil.copy(EXAMPLE / "digits.onnx", t.dir / "m.onnx")
    pipeline = (EXAMPLE / "pipeline.json").read_text()
    (t.dir / "p.json").write_text(pipeline)  # its labels are not beside it
    (t.dir / "folder").mkdir()
    (t.dir / "notes.txt").write_text("notes")
    t.run("mlpack", "keygen", "-o", "k.pem")
    os.chmod(t.dir / "k.pem", 0o600)
    (t.dir / "key.txt").write_text("my key")
    os.chmod(t.dir / "key.txt", 0o600)
    (t.dir / "open.pem").write_bytes((t.dir / "k.pem").read_bytes())
    os.chmod(t.dir / "open.pem", 0o644)
    refusals = (
        (2, ["--id", "Bad Id"], "--id: \"Bad Id\""), (2, ["--id", "nameless"], "organisation/name"), (2, ["--model-version", "0"], "--model-version"),
        (3, ["-o", "absent/m.mlc"], "absent/m.mlc"), (2, ["-o", "folder"], "folder"), (2, ["-o", "notes.txt"], "notes.txt"),
        (3, ["-o", "x" * 300 + ".mlc"], "cannot create"),
        (3, ["--key", "absent.pem"], "absent.pem"), (11, ["--key", "open.pem"], "open.pem"), (4, ["--key", "key.txt"], "key.txt"),
        (2, ["--target", "x86-64-v9"], "x86-64-v9"), (3, ["--pipeline", "absent.json"], "absent.json"),
        (3, ["--pipeline", "p.json"], "E1003"), (3, ["--ops", "absent"], "absent"), (2, ["--dim", "n"], "--dim"),
        (2, ["--dump", "nothing"], "nothing"), (2, ["--dump", "import,lop"], "did you mean 'loop'"),
    )
    for code, flags, words in refusals:
        output = [] if "-o" in flags else ["-o", "m.mlc"]
        done = t.run("mlpack", "build", "m.onnx", *output, "--progress", "plain", *flags, code=code)
        assert words in done.stderr, (flags, done.stderr)
        assert " s  " not in done.stderr, f"{flags}: no stage of a build was begun\n{done.stderr}"
    t.env["TMPDIR"] = str(t.dir / "absent")
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--progress", "plain", code=3)
    assert "TMPDIR" in done.stderr and " s  " not in done.stderr, done.stderr
    del t.env["TMPDIR"]
    t.env["XDG_CONFIG_HOME"] = str(t.dir / "notes.txt")  # no folder, and none can be made there
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--progress", "plain", code=3)
    assert "notes.txt" in done.stderr and " s  " not in done.stderr, done.stderr
    assert not (t.dir / "m.mlc").exists()


if __name__ == "__main__":
    main([little_memory_is_an_error_and_leaves_nothing, other_commands_with_little_memory_end_with_7_too,
          files_that_may_not_grow_are_an_error_and_leave_nothing, a_full_disk_is_an_error_and_leaves_nothing, ctrl_c_leaves_nothing,
          what_is_wrong_is_told_before_anything_is_compiled], own_cache=True)
