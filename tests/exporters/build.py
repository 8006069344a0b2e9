#!/usr/bin/env python3
"""`mlpack build` of one model for this machine: how long, how much memory, what it said.

`build.py LIMIT COMMAND ...` runs the command and prints what it measured as JSON. It is a process of its own because the peak that
the system tells of a child begins with that of its parent, and the suite is large.
"""
import json
import os
import subprocess
import sys
import tempfile
import time


def measured(limit, command):
    """{seconds, peak_mb, code, message}; code is None where the limit (seconds) was reached."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        code, peak = None, 0
        while code is None and time.perf_counter() - begin < limit:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                code, peak = os.waitstatus_to_exitcode(status), usage.ru_maxrss // 1024
            else:
                time.sleep(0.02)
        if code is None:
            process.terminate()
            process.wait()
        errors.seek(0)
        message = errors.read().strip() if code is not None else f"more than {limit:g} s"
    return {"seconds": round(time.perf_counter() - begin, 2), "peak_mb": peak, "code": code, "message": message}


def build(mlpack, source, container, options, limit):
    command = [mlpack, "build", source, "-o", container, "--force", "--target", "native", "--progress", "none", *options]
    done = subprocess.run([sys.executable, "-S", os.path.abspath(__file__), str(limit), *command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    print(json.dumps(measured(float(sys.argv[1]), sys.argv[2:])))
