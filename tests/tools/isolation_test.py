"""mlrun answers for files that nobody trusted has signed in a process without privileges."""
import json
import os
import pathlib
import signal
import subprocess
import time

from mlrun_test import EXAMPLE, IMAGES, ask, container
from onnx_file import model, node, port
from tool_test import Skipped, main


def who_is_isolated(tools):
    """Files without trust, and any file with --isolated; all commands that open one."""
    container(tools)
    short = ("--duration", "20ms", "--warmup", "0s")
    for command in (("digits.mlc", "-i", IMAGES[0]), ("explain", "digits.mlc"), ("selftest", "digits.mlc"),
                    ("bench", "digits.mlc", *short)):
        bare = tuple("bare.mlc" if word == "digits.mlc" else word for word in command)
        if command[0] == "digits.mlc":
            bare = ("bare.mlc", "--raw", "-i", "random")
        assert ask(tools, *command)["isolated"] is False, command
        assert ask(tools, *command, "--isolated")["isolated"] is True, command
        assert ask(tools, *bare)["isolated"] is True, bare
        assert ask(tools, *bare, "--allow-unsigned")["isolated"] is False, bare
        assert ask(tools, *bare, "--allow-unsigned", "--isolated")["isolated"] is True, bare
    done = tools.run("mlrun", "bare.mlc", "--raw", "-i", "random")
    assert "isolated" in done.stderr, done.stderr
    tools.new_home()
    stranger = ask(tools, "digits.mlc", "-i", IMAGES[0])
    assert stranger["isolated"] is True and stranger["variant"] == "portable", stranger


def isolation_changes_no_answer(tools):
    """Native code in a child, inputs by path and by pipe, results to a file."""
    container(tools)
    here = ask(tools, "digits.mlc", "-i", IMAGES[0])
    there = ask(tools, "digits.mlc", "-i", IMAGES[0], "--isolated")
    assert here["outputs"] == there["outputs"] and here["variant"] == there["variant"] != "portable", there
    for words in ((), ("--isolated",)):
        tools.run("mlrun", "digits.mlc", "-i", IMAGES[0], "-o", "a.json", *words)
        assert json.loads((tools.dir / "a.json").read_text()) == here["outputs"]
        (tools.dir / "a.json").unlink()
        with open(IMAGES[0], "rb") as image:
            done = subprocess.run([str(tools.bin / "mlrun"), "digits.mlc", "-i", "-", "--json", *words], cwd=tools.dir,
                                  env=tools.env, stdin=image, capture_output=True, timeout=120)
        assert json.loads(done.stdout)["outputs"] == here["outputs"], done
        (tools.dir / "a=b.png").write_bytes(IMAGES[0].read_bytes())
        assert ask(tools, "digits.mlc", "-i", "=a=b.png", *words)["outputs"] == here["outputs"]
        tools.run("mlrun", "digits.mlc", "-i", "nowhere.png", *words, code=3)
        tools.run("mlrun", "digits.mlc", "--raw", "-i", "random", "-o", "nowhere/a.npz", *words, code=3)


def a_failed_run_leaves_no_file(tools):
    container(tools)
    (tools.dir / "text.png").write_text("not a picture")
    for words in ((), ("--isolated",)):
        tools.run("mlrun", "digits.mlc", "-i", "text.png", "-o", "a.json", *words, code=6)
        assert not list(tools.dir.glob("a.json*")), list(tools.dir.iterdir())


def a_truncated_file_says_what_is_missing(tools):
    good = container(tools).read_bytes()
    (tools.dir / "cut.mlc").write_bytes(good[:-len(good) // 3])
    done = tools.run("mlrun", "cut.mlc", "-i", IMAGES[0], code=4)
    assert "E1101" in done.stderr and "cut off" in done.stderr, done.stderr


def running(tools, *args):
    return subprocess.Popen([str(tools.bin / "mlrun"), *map(str, args)], cwd=tools.dir, env=tools.env,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def limits_of(process):
    """Soft limits of the child by name: of CPU seconds and of bytes."""
    child = child_of(process)
    try:
        text = pathlib.Path(f"/proc/{child}/limits").read_text()
    except PermissionError:
        raise Skipped("another user's limits, to this user")
    found = {line[:25].strip(): line.split()[3] for line in text.splitlines()}
    return [None if found[name] == "unlimited" else int(found[name]) for name in ("Max cpu time", "Max data size")]


def its_cpu_time_is_limited(tools):
    """By what runs may take and a fixed time beside it, short for a file that nobody trusts; without a limit of time, by nothing."""
    container(tools)
    workers, beside = os.cpu_count(), 60 if "MLC_SANITIZED" in os.environ else 10
    for isolated, words, least, most in ((False, ("--time-limit", "3s"), beside + 5, beside + 5 * workers), (False, (), beside + 3, beside + 3 * workers),
                                         (True, ("--time-limit", "3s"), 65, 60 + 5 * workers), (False, ("--time-limit", "none"), None, None)):
        if not isolated:
            tools.new_home()
        process = subprocess.Popen([str(tools.bin / "mlrun"), "digits.mlc", "-i", "-", *words, *(("--isolated", "--allow-unsigned") if isolated else ())], cwd=tools.dir,
                                   env=tools.env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            seconds, _ = limits_of(process)  # it waits for its input
        finally:
            process.communicate(timeout=60)
        assert seconds is None if least is None else least <= seconds <= most, (isolated, words, seconds)


def its_memory_is_limited(tools):
    """By the profile of the untrusted and what the user gives, not by what the host has."""
    container(tools)
    mib, stacks = 1 << 20, 64 << 20  # of workers: as many as the host has

    def data(*words):
        process = running(tools, "bench", "bare.mlc", "--duration", "100s", "--warmup", "0s", "--threads", "2", *words)
        try:
            return limits_of(process)[1]
        finally:
            process.kill()
            process.communicate()

    least = (192 + 256 + 128) * mib
    bare = data("--raw")
    if bare is None:
        raise Skipped("memory is not limited here")
    assert least <= bare <= least + stacks, bare
    assert data("--raw", "--sessions", "3") - bare >= 2 * 192 * mib
    assert abs(data("--raw", "--memory-limit", "64M") - bare + (192 + 256 - 128) * mib) <= 20 * mib
    assert data("--raw", "--memory-limit", "none") > bare + 100 * mib  # what the host has
    assert data("--raw", "--allow-unsigned", "--isolated") > bare + 100 * mib


def a_lack_of_memory_is_a_failure_like_others(tools):
    """Twenty million strings are more than what the process of a stranger's file may hold."""
    (tools.dir / "strings.onnx").write_bytes(model([node("Identity", ["x"], ["y"])], [port("x", "str", ["N"])], [port("y", "str", ["N"])]))
    tools.run("mlpack", "build", "strings.onnx", "-o", "strings.mlc", "--target", "portable", "--no-sign")
    (tools.dir / "lines.txt").write_bytes(b"\n" * 20_000_000)
    if "MLC_SANITIZED" in os.environ:
        raise Skipped("memory is not limited here")
    answer = json.loads(tools.run("mlrun", "strings.mlc", "-i", "lines.txt", "--json", code=7).stdout)
    assert answer["code"] == "E6006" and "no memory left" in answer["message"] and "--memory-limit" in answer["help"], answer
    (tools.dir / "lines.txt").write_bytes(b"a line of a text\n" * 300_000)
    tools.run("mlrun", "strings.mlc", "-i", "lines.txt")


def child_of(process):
    """The process id of the child, once it is confined."""
    for _ in range(2000):
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children:
            status = pathlib.Path(f"/proc/{children[0]}/status").read_text()
            if "Seccomp:\t2" in status:
                assert "NoNewPrivs:\t1" in status, status
                return int(children[0])
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError("no confined child")


def how_the_child_ends_is_told(tools):
    """Signals of the user reach it; its own end is an error with a number, and one JSON document."""
    container(tools)
    bench = ("bench", "bare.mlc", "--duration", "100s", "--warmup", "0s", "--json")
    for number, code, error in ((signal.SIGSEGV, 70, "E6003"), (signal.SIGILL, 70, "E6002"), (signal.SIGSYS, 70, "E6011"),
                                (signal.SIGKILL, 7, "E6012"), (signal.SIGBUS, 4, "E6001")):
        process = running(tools, *bench)
        os.kill(child_of(process), number)
        out, _ = process.communicate(timeout=60)
        answer = json.loads(out)
        assert process.returncode == code and answer["exit_code"] == code and answer["code"] == error, (number, answer)
    for number in (signal.SIGTERM, signal.SIGINT):
        process = running(tools, *bench)
        child = child_of(process)
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode == -number, (number, process.returncode)
        assert not os.path.exists(f"/proc/{child}"), "the child goes on"


def blocked(tools, *args):
    """`mlpack` with a standard output that takes nothing: it waits there, and its child. Also where to read that output from."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b" " * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write, True)
    process = subprocess.Popen([str(tools.bin / "mlpack"), *map(str, args)], cwd=tools.dir, env=tools.env, stdin=subprocess.DEVNULL, stdout=write,
                               stderr=subprocess.PIPE)
    os.close(write)
    return process, read


def output_of(process, read):
    with os.fdopen(read, "rb") as answer:
        text = answer.read().strip()
    process.wait(60)
    process.stderr.close()
    return text


LOOKS = (("inspect", "s.mlc"), ("inspect", "s.mlc", "--json"), ("verify", "s.mlc"), ("size", "s.mlc"), ("diff", "own.mlc", "s.mlc"))


def mlpack_looks_into_strangers_files_in_that_process(tools):
    """And into one that a trusted key has signed in its own."""
    for name in ("s.mlc", "own.mlc"):
        tools.run("sample_container", name)
    tools.run("mlpack", "sign", "own.mlc")
    for command in LOOKS:
        alone = tools.run("mlpack", *command, code=(0, 1, 10))
        process, read = blocked(tools, *command)
        cpu, data = limits_of(process)  # of a child that is confined
        assert output_of(process, read) == alone.stdout.strip().encode() and process.returncode == alone.returncode, command
        if "MLC_SANITIZED" not in os.environ:
            containers = 2 if command[0] == "diff" else 1
            least = (192 * containers + 256 + 128) << 20
            assert cpu == 10 and (data is None or least <= data <= least + (1 << 30)), (command, cpu, data)
        command = tuple(word.replace("s.mlc", "own.mlc") for word in command)
        process, read = blocked(tools, *command)
        stat = pathlib.Path(f"/proc/{process.pid}/stat")
        while stat.read_text().rsplit(")", 1)[1].split()[0] != "S":  # it waits: for standard output
            assert process.poll() is None
        assert pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text() == "", command
        output_of(process, read)


def how_the_child_of_mlpack_ends_is_told(tools):
    tools.run("sample_container", "s.mlc")
    for number, code, error in ((signal.SIGSEGV, 70, "E6003"), (signal.SIGSYS, 70, "E6011"), (signal.SIGKILL, 7, "E6012"), (signal.SIGXCPU, 8, "E6012"), (signal.SIGBUS, 4, "E6001")):
        process, read = blocked(tools, "inspect", "s.mlc", "--json")
        child = child_of(process)
        os.kill(child, number)
        while os.path.exists(f"/proc/{child}"):
            pass  # or it would print what is read now
        answer = json.loads(output_of(process, read))
        assert process.returncode == code and answer["exit_code"] == code and answer["code"] == error, (number, answer)
    process, read = blocked(tools, "inspect", "s.mlc")
    child = child_of(process)
    process.terminate()
    while os.path.exists(f"/proc/{child}"):
        pass
    output_of(process, read)
    assert process.returncode == -signal.SIGTERM, process.returncode
    process, read = blocked(tools, "inspect", "s.mlc")  # whose output is closed, as by head
    os.close(read)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGPIPE and said == b"", (process.returncode, said)


def a_manifest_that_takes_too_much_is_a_failure_like_others(tools):
    """Two files of as many tensors as may be, of which each is a difference."""
    if "MLC_SANITIZED" in os.environ:
        raise Skipped("memory is not limited here")
    for name in "xy":
        tools.run("sample_container", f"{name}.mlc", "tensors", 130_000, name)
    answer = tools.json("mlpack", "diff", "x.mlc", "y.mlc", code=7)
    assert answer["code"] == "E6006" and "no memory left" in answer["message"], answer
    done = tools.run("mlpack", "diff", "x.mlc", "y.mlc", code=7)
    assert done.stderr.count("\n") == 1 and not done.stdout, done
    tools.run("mlpack", "inspect", "x.mlc", "--tensors")  # one of them is within it


def completion_asks_that_process(tools):
    """The names that a stranger's file has are words still, and its child is seen where it has much to read."""
    tools.run("sample_container", "x.mlc", "tensors", 130_000)
    for number in range(20):
        process = subprocess.Popen([str(tools.bin / "mlpack"), "__complete", "inspect", "x.mlc", "--variant", ""], cwd=tools.dir, env=tools.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        seen = False
        while process.poll() is None and not seen:
            for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                try:
                    seen = "Seccomp:\t2" in pathlib.Path(f"/proc/{child}/status").read_text()
                except OSError:
                    pass
        words = process.communicate(timeout=60)[0].decode()
        assert words == "portable\tportable\nx86-64-v2\tx86-64-v2\n", words
        if seen:
            return
    raise AssertionError("no confined child")


def the_child_has_no_file_open_for_writing(tools):
    """But the pipes of the caller: and descriptors that this process left open are gone."""
    container(tools)
    left_open = os.open(tools.dir / "left", os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(left_open, True)
    process = subprocess.Popen([str(tools.bin / "mlrun"), "bench", "bare.mlc", "--duration", "100s"], cwd=tools.dir,
                               env=tools.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               close_fds=False)
    folder = pathlib.Path(f"/proc/{child_of(process)}/fd")
    if os.getuid() == 0:  # the child is not dumpable: others may not look into it
        for entry in folder.iterdir():
            target = os.readlink(entry)
            flags = int((folder.parent / "fdinfo" / entry.name).read_text().split("flags:")[1].split()[0], 8)
            assert flags & os.O_ACCMODE == os.O_RDONLY or target.startswith("pipe:"), target
            assert not target.endswith("/left"), target
    process.kill()
    process.communicate()
    os.close(left_open)


if __name__ == "__main__":
    main([who_is_isolated, isolation_changes_no_answer, a_failed_run_leaves_no_file, a_truncated_file_says_what_is_missing,
          its_cpu_time_is_limited, its_memory_is_limited, a_lack_of_memory_is_a_failure_like_others, how_the_child_ends_is_told,
          the_child_has_no_file_open_for_writing, mlpack_looks_into_strangers_files_in_that_process, how_the_child_of_mlpack_ends_is_told,
          a_manifest_that_takes_too_much_is_a_failure_like_others, completion_asks_that_process])
