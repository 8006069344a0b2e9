"""Kernels of a container as a card has them: the module (spec/gpu-module.md), what ptxas says of each kernel, and the loops of its SASS."""
import collections
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

CLASSES = ("HMMA", "IMMA", "FFMA", "LDS", "LDG", "LDGSTS", "STS", "STG", "BAR")


@dataclasses.dataclass
class Entry:
    name: str
    image: int
    lanes: int
    shared: int
    buffers: int
    scalars: int


@dataclasses.dataclass
class Resources:
    registers: int = 0
    shared: int = 0
    stack: int = 0
    spilled: int = 0  # bytes that a lane stores
    loops: list = dataclasses.field(default_factory=list)  # innermost ones, as counters of instructions


def read_module(data):
    """Entries in the order of the plan's kernels, and texts of PTX by number of image."""
    magic, version, kind, _, num_entries, num_images, num_features, name_bytes = struct.unpack_from("<4sHBBIIII", data)
    if magic != b"MLCG" or version != 1 or kind != 3:
        raise ValueError("no module of PTX")
    rows = [struct.unpack_from("<IHHHHHHHHIIIQQ", data, 24 + 48 * k) for k in range(num_entries)]
    at = 24 + 48 * num_entries
    images = [struct.unpack_from("<BBHIQ", data, at + 16 * k) for k in range(num_images)]
    at += 16 * num_images + (4 * num_features + 7) // 8 * 8
    names, entries = data[at:at + name_bytes].decode(), []
    for image, length, x, y, z, _, buffers, scalars, _, stated, given, *_ in rows:
        entries.append(Entry(names[:length], image, x * y * z, stated + given, buffers, scalars))
        names = names[length:]
    at += (name_bytes + 7) // 8 * 8
    texts = {}
    for k, (kind, _, _, _, length) in enumerate(images):
        if kind == 1:
            texts[k] = data[at:at + length - 1].decode()
        at += (length + 7) // 8 * 8
    return entries, texts


@functools.cache
def tool(name):
    """Where a program of NVIDIA is: in PATH, in CUDA's folder or in $MLC_NVIDIA_TOOLS."""
    places = [os.environ.get("MLC_NVIDIA_TOOLS", ""), "/usr/local/cuda/bin"]
    return shutil.which(name) or next((f"{p}/{name}" for p in places if p and os.access(f"{p}/{name}", os.X_OK)), None)


def assemble(text, architecture):
    """What ptxas makes of a text: Resources by name of kernel, and what it says where it refuses."""
    with tempfile.TemporaryDirectory(prefix="mlc-sass-") as folder:
        source, cubin = pathlib.Path(folder) / "k.ptx", pathlib.Path(folder) / "k.cubin"
        source.write_text(text)
        alone = "a" if re.search(r"^\.target sm_\d+a$", text, re.M) else ""  # a text for one architecture and none after it
        done = subprocess.run([tool("ptxas"), "-v", f"-arch=sm_{architecture}{alone}", "-o", cubin, source], capture_output=True, text=True)
        if done.returncode:
            return {}, (done.stdout + done.stderr).strip()
        out, current = {}, None
        for line in (done.stdout + done.stderr).splitlines():
            if at := re.search(r"Function properties for (\w+)", line):
                current = out.setdefault(at[1], Resources())
            elif at := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
                current.stack, current.spilled = int(at[1]), int(at[2])
            elif at := re.search(r"Used (\d+) registers", line):
                current.registers = int(at[1])
                current.shared = int((re.search(r"(\d+) bytes smem", line) or [0, 0])[1])
        if tool("nvdisasm"):
            listing = subprocess.run([tool("nvdisasm"), "-c", cubin], capture_output=True, text=True).stdout
            for part in re.split(r"^\.text\.", listing, flags=re.M)[1:]:
                name = re.match(r"\w+", part)[0]
                if name in out:
                    out[name].loops = innermost_loops(part)
        return out, ""


def innermost_loops(listing):
    """Instructions by name of each loop that has no other: from a label to the branch back to it."""
    labels, rows = {}, []
    for line in listing.splitlines():
        if at := re.match(r"\s*(\.L_x_\d+):", line):
            labels[at[1]] = len(rows)
        elif at := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?);", line):
            rows.append((at[1], at[2]))
    spans = []
    for k, (name, rest) in enumerate(rows):
        target = re.search(r"\.L_x_\d+", rest) if name.startswith("BRA") else None
        if target and labels.get(target[0], k + 1) < k:
            spans.append((labels[target[0]], k))
    inner = [s for s in spans if not any(t != s and s[0] <= t[0] and t[1] <= s[1] for t in spans)]
    return [collections.Counter(rows[k][0] for k in range(a, b + 1)) for a, b in inner]


def of_class(loop, name):
    return sum(count for key, count in loop.items() if key.split(".")[0] == name)


def widths(loop, name):
    """Loads or stores of a loop by their bits: 32 where the name has none."""
    out = collections.Counter()
    for key, count in loop.items():
        if key.split(".")[0] == name:
            bits = re.search(r"\.(?:U|S)?(8|16|64|128)\b", key)
            out[int(bits[1]) if bits else 32] += count
    return dict(out)


def summary(loop):
    row = {"instructions": sum(loop.values()), **{name: of_class(loop, name) for name in CLASSES}}
    return {**{k: v for k, v in row.items() if v}, **{f"{name}_bits": widths(loop, name) for name in ("LDS", "LDG", "STS") if row[name]}}
