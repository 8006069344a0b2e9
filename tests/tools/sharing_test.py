"""Two processes that run one container share the pages of its weights: the kernel counts them as mapped twice.

Linux only: reads /proc/PID/smaps of two `mlrun bench` that run at the same time.
"""
import struct
import subprocess
import sys
import time

from onnx_file import model, node, port, tensor
from tool_test import main

WIDTH, LAYERS = 1024, 4  # 16 MB of weights


def wide_model():
    nodes, weights, value = [], [], "x"
    row = struct.pack(f"<{WIDTH}f", *((k * 7919 % 1021) / 1021 - 0.5 for k in range(WIDTH)))
    for k in range(LAYERS):
        data = b"".join(row[4 * (i % WIDTH):] + row[:4 * (i % WIDTH)] for i in range(k, WIDTH + k))
        weights.append(tensor(f"w{k}", "f32", [WIDTH, WIDTH], data))
        nodes.append(node("MatMul", [value, f"w{k}"], [f"m{k}" if k + 1 < LAYERS else "y"]))
        value = f"m{k}"
    return model(nodes, [port("x", "f32", ["n", WIDTH])], [port("y", "f32", ["n", WIDTH])], weights)


def mapping_of(pid, path):
    """{field: KiB} summed over all mappings of the file."""
    total, ours = {}, False
    for line in open(f"/proc/{pid}/smaps", encoding="utf-8"):
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            ours = len(words) > 5 and words[5] == str(path)
        elif ours and len(words) == 3 and words[2] == "kB":
            total[words[0][:-1]] = total.get(words[0][:-1], 0) + int(words[1])
    return total


def two_processes_share_the_weight_pages(t):
    (t.dir / "wide.onnx").write_bytes(wide_model())
    t.run("mlpack", "build", "wide.onnx", "-o", "wide.mlc", "--target", "native")
    path = (t.dir / "wide.mlc").resolve()
    command = [str(t.bin / "mlrun"), "bench", str(path), "-i", "zeros", "--threads", "1", "--duration", "120s", "--warmup", "0s"]
    both = [subprocess.Popen(command, env=t.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
    weights = 4 * WIDTH * WIDTH * LAYERS // 1024
    seen = []
    try:
        for _ in range(600):  # until both have touched all weights
            assert all(p.poll() is None for p in both), "mlrun bench ended"
            seen = [mapping_of(p.pid, path) for p in both]
            if all(m.get("Rss", 0) >= weights for m in seen):
                break
            time.sleep(0.1)
        for m in seen:
            assert m["Rss"] >= weights, f"weights are used from the mapping of the file: {m}, {weights} KiB expected"
            assert m["Pss"] <= 0.6 * m["Rss"], f"half of the pages are counted to each process: {m}"
            assert m.get("Private_Dirty", 0) == 0 and m.get("Anonymous", 0) == 0, f"no page is a copy: {m}"
    finally:
        for p in both:
            p.terminate()
            p.wait()


if __name__ == "__main__":
    if not sys.platform.startswith("linux"):
        print("skipped: page sharing (needs /proc)")
        sys.exit(0)
    main([two_processes_share_the_weight_pages])
