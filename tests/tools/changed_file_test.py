"""Files that change while mlrun uses them: an error with a number, never a wrong answer and never a bare signal."""
import json
import os
import select
import signal
import subprocess
import time

from isolation_test import running
from mlrun_test import ask, container
from tool_test import main

BENCH = ("bench", "digits.mlc", "--duration", "100s", "--warmup", "0s")


def until_it_runs(process):
    """The line on stderr that stands between loading and running; with --json there is none."""
    line = process.stderr.readline().decode()
    assert " program " in line, line


def until_it_has_run(process, pid=None):
    """Its first run of milliseconds, in which weights are read, lies behind it: seen by the processor time that it has used."""
    ticks = 0
    while ticks < 0.5 * os.sysconf("SC_CLK_TCK") and process.poll() is None:
        with open(f"/proc/{pid or process.pid}/stat") as stat:
            ticks = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))


def child_of(process):
    """The process without privileges that it has started."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            if found := children.read().split():
                return int(found[0])
    raise AssertionError(process.communicate())


def a_file_that_is_written_to_is_E6001(tools):
    path = container(tools)
    for words in ((), ("--isolated",), ("--verify", "lazy"), ("--verify", "full")):
        process = running(tools, *BENCH, *words)
        until_it_runs(process)
        with open(path, "r+b") as file:  # the same bytes: only the time tells
            first = file.read(1)
            file.seek(0)
            file.write(first)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 4 and b"E6001" in err, (words, process.returncode, err)


def a_file_that_is_truncated_is_E6001(tools):
    """Whether the run sees it by its size or by SIGBUS, on whichever thread, with and without isolation."""
    for attempt in range(6):
        path = container(tools)
        process = running(tools, *BENCH, "--verify", "lazy", "--threads", str(1 + attempt % 2),
                          *(("--isolated",) if attempt % 3 == 2 else ()))
        until_it_runs(process)
        time.sleep(0.01 * attempt)
        os.truncate(path, 4096)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 4 and b"E6001" in err, (attempt, process.returncode, err)


def sigbus_is_E6001(tools):
    """As the kernel raises it in whichever thread reads a page that is gone."""
    container(tools)
    for words, threads in (((), "1"), ((), "2"), (("--isolated",), "2"), (("--json",), "1"), (("--isolated", "--json"), "1")):
        process = running(tools, *BENCH, "--threads", threads, *words)
        target = child_of(process) if "--isolated" in words else process.pid
        until_it_has_run(process, target)
        os.kill(target, signal.SIGBUS)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 4 and b"E6001" in (out if "--json" in words else err), (words, process.returncode, out, err)
        if "--json" in words:
            answer = json.loads(out)
            assert (answer["schema"], answer["ok"], answer["exit_code"], answer["code"]) == ("mlc.bench/1", False, 4, "E6001"), answer


def a_fault_of_a_kernel_with_json_is_an_answer(tools):
    container(tools)
    process = running(tools, *BENCH, "--json", "--threads", "1")
    until_it_has_run(process)
    os.kill(process.pid, signal.SIGSEGV)
    out, _ = process.communicate(timeout=60)
    answer = json.loads(out)
    assert process.returncode == -signal.SIGSEGV and answer["exit_code"] == 128 + signal.SIGSEGV, (process.returncode, answer)
    assert answer["code"] == "E6003" and "memory fault" in answer["message"] and "--variant portable" in answer["help"], answer


def a_file_that_others_may_write_to_is_copied(tools):
    path = container(tools)
    for mode, copied in ((0o600, False), (0o666, True), (0o620, True)):
        path.chmod(mode)
        assert ask(tools, "explain", "digits.mlc")["copied"] is copied, oct(mode)
        assert ask(tools, "explain", "digits.mlc", "--verify", "lazy")["copied"] is False
        assert ask(tools, "explain", "digits.mlc", "--verify", "copy")["copied"] is True
    path.chmod(0o666)
    process = running(tools, *BENCH)
    until_it_runs(process)
    until_it_has_run(process)
    os.truncate(path, 4096)
    assert not select.select([process.stderr], [], [], 0.3)[0], process.communicate()  # it goes on
    process.terminate()
    process.communicate(timeout=60)


if __name__ == "__main__":
    main([a_file_that_is_written_to_is_E6001, a_file_that_is_truncated_is_E6001, sigbus_is_E6001,
          a_fault_of_a_kernel_with_json_is_an_answer, a_file_that_others_may_write_to_is_copied])
