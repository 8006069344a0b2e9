"""Time of one run, ours and ONNX Runtime's, one thread each, in turn; the least of all, since other work only ever slows a run down."""
import json
import os
import subprocess
import time

import compare


def theirs(session, names, arrays, seconds):
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        begin = time.perf_counter()
        session.run(names, arrays)
        now = time.perf_counter()
        best = min(best, now - begin)
        if now > end:
            return best * 1e3


def ours(mlrun, container, given, seconds):
    command = [mlrun, "bench", container, "--raw", "-i", given, "--threads", "1", "--duration", f"{int(seconds * 1000)}ms", "--warmup", "50ms", "--time-limit", "none", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"mlrun bench: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)["latency_ns"]["min"] / 1e6


def timed(model, folder, container, mlrun, rounds, seconds):
    """{ours_ms, theirs_ms} of the first case; theirs_ms is None where ONNX Runtime has no kernels for the model."""
    given = os.path.join(folder, "case1.npz")
    arrays = compare.feeds(given)
    session = compare.reference(os.path.join(folder, "model.onnx"), arrays) if model.form.precision != "bf16" else None
    names = [o.name for o in session.get_outputs()] if session else []
    mine, other = float("inf"), float("inf")
    for _ in range(rounds):
        mine = min(mine, ours(mlrun, container, given, seconds))
        if session:
            other = min(other, theirs(session, names, arrays, seconds))
    return {"ours_ms": mine, "theirs_ms": other if session else None}
