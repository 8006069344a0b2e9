"""What a call costs in Python, and how much more that is than in C.

    python bench/call_cost.py RELU.mlc [CALL_COST]     the container: x to y, both f32[4]; the program: call_cost.c, built

The time is that of the thread, on which the run is done: what else the machine does counts little."""
import statistics
import subprocess
import sys
import time

import numpy as np

import mlrt

ROUNDS, RUNS = 20, 5000


def nanoseconds(call):
    times = []
    for _ in range(ROUNDS):
        start = time.thread_time_ns()
        for _ in range(RUNS):
            call()
        times.append((time.thread_time_ns() - start) / RUNS)
    return min(times), statistics.median(times)


model = mlrt.open(sys.argv[1], threads=1, allow_unsigned=True)
session = model.session()
x = np.array([-1, 2, -3, 4], np.float32)
in_c = None
if len(sys.argv) > 2:
    in_c = [float(t) for t in subprocess.run([sys.argv[2], sys.argv[1]], capture_output=True, text=True, check=True).stdout.split()]
    print(f"C              least {in_c[0] / 1e3:7.3f} us   median {in_c[1] / 1e3:7.3f} us")
for name, call in (("model.run", lambda: model.run(x=x)), ("session.run", lambda: session.run(x=x)),
                   ("tensors=True", lambda: session.run(x=x, tensors=True))):
    least, median = nanoseconds(call)
    more = "" if in_c is None else f"   more than C: {(median - in_c[1]) / 1e3:7.3f} us"
    print(f"{name:14} least {least / 1e3:7.3f} us   median {median / 1e3:7.3f} us{more}")
