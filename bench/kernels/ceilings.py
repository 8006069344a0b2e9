#!/usr/bin/env python3
"""How far the kernels of whole models are from what this machine can do, by kind: products, attention, norms, other maps.

    bench/kernels/ceilings.py --bin build/release/bin [--threads 1] [--duration 1s] [--out FILE.json] MODEL.mlc[:NAME=N,...] ...

From `mlrun profile --json`: the share of the roof is the least time in which the machine could do what a launch does, by the ceilings
measured before and behind it, over the time that it takes. A kind's share weighs its launches by their time.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess

KINDS = ("products of bytes", "products", "attention", "softmax and norms", "recurrent", "other maps", "moves")
OF_PRODUCTS = 40  # operations for each byte that is written: 160 for a float, more than functions take


def kind_of(launch):
    """A launch is called as the last node in it, so its figures tell more than its name."""
    if launch["of_bytes"]:
        return "products of bytes"
    if re.search("LSTM|GRU|RNN", launch["name"]):
        return "recurrent"
    does, written = launch["operations"], launch["bytes_written"]
    several = " to " in launch["name"]  # neighbours in one launch, which share their rows
    if does and written and does / written >= OF_PRODUCTS:
        return "attention" if several or "Attention" in launch["name"] else "products"
    if several or re.search("Softmax|Norm|Reduce", launch["name"]):
        return "softmax and norms"
    return "other maps" if does else "moves"


def profile(args, text):
    path, _, dims = text.partition(":")
    words = [word for dim in dims.split(",") if dim for word in ("--dim", dim)]
    done = subprocess.run([args.bin / "mlrun", "profile", path, "--raw", *words, "--threads", str(args.threads), "--duration", args.duration,
                           "--allow-unsigned", "--time-limit", "none", "--memory-limit", "none", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(path).stem + (f" ({dims})" if dims else ""), json.loads(done.stdout)


def shares(answer):
    """{kind: (part of the time, share of the roof or None)}"""
    total = sum(l["min_ns"] for l in answer["launches"]) or 1
    time, bounded, least = collections.Counter(), collections.Counter(), collections.Counter()
    for launch in answer["launches"]:
        kind = kind_of(launch)
        time[kind] += launch["min_ns"]
        if launch["roof"] is not None:
            bounded[kind] += launch["min_ns"]
            least[kind] += launch["roof"] * launch["min_ns"]
    return {kind: (ns / total, least[kind] / bounded[kind] if bounded[kind] else None) for kind, ns in time.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--duration", default="1s")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("models", nargs="+", metavar="MODEL.mlc[:NAME=N,...]")
    args = parser.parse_args()
    found = [(name, shares(answer), answer["ceilings"]) for name, answer in (profile(args, text) for text in args.models)]
    kinds = [kind for kind in KINDS if any(kind in s for _, s, _ in found)]
    print("of the roof (part of the time)")
    print("| model | Gop/s | " + " | ".join(kinds) + " |\n" + "| --- " * (len(kinds) + 2) + "|")
    for name, share, ceilings in found:
        cells = [f"{share[k][1]:.0%} ({share[k][0]:.0%})" if k in share and share[k][1] is not None else f"- ({share[k][0]:.0%})" if k in share else "" for k in kinds]
        print(f"| {name} | {ceilings['operations_per_s'] / 1e9:.0f} | " + " | ".join(cells) + " |")
    if args.out:
        args.out.write_text(json.dumps([{"model": n, "ceilings": c, "kinds": {k: {"time": t, "roof": r} for k, (t, r) in s.items()}} for n, s, c in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
