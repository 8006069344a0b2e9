"""What the least times of a warm model do not tell: its start, a machine that does other things, and other lengths.

    start     a fresh process for every sample, of all runtimes in turn: from its start to the first answer
    scaling   two threads against one, on an idle machine or beside a process that never stops
"""
import os
import pathlib
import statistics
import subprocess
import sys
import time

from process import Process


def started(kind, model, inputs, threads, packages):
    """One fresh process: milliseconds from its start to the first answer, and what it says of itself."""
    begin = time.perf_counter()
    peer = Process(kind, model, inputs, threads, packages, sorted(os.sched_getaffinity(0))[:threads])
    try:
        facts = peer.reply()
        facts["start_ms"] = (time.perf_counter() - begin) * 1e3
    finally:
        peer.end()
    return facts


def folder_bytes(folder):
    return sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file() and not file.is_symlink())


def start(models, inputs, threads, rounds, packages):
    """models: {kind: file}. For each kind the least and the median of what a fresh process takes, its largest memory, its files."""
    found = {kind: [] for kind in models}
    failures = {}
    for turn in range(rounds + 1):  # the first of each reads files that no cache has yet, and is left out
        order = list(models)
        for kind in order[turn % len(order):] + order[:turn % len(order)]:
            if kind in failures:
                continue
            try:
                facts = started(kind, models[kind], inputs, threads, packages)
                if turn > 0:
                    found[kind].append(facts)
            except RuntimeError as why:
                failures[kind] = str(why)
    row = {}
    for kind, samples in found.items():
        if kind in failures or not samples:
            continue
        row[kind] = {name: min(s[name] for s in samples) for name in ("start_ms", "load_ms", "open_ms", "first_ms")}
        row[kind]["median_start_ms"] = statistics.median(s["start_ms"] for s in samples)
        row[kind]["rss_mb"] = max(s["rss_mb"] for s in samples)
        row[kind]["base_rss_mb"] = min(s["base_rss_mb"] for s in samples)
        row[kind]["model_bytes"] = pathlib.Path(models[kind]).stat().st_size
        row[kind]["runtime_bytes"] = folder_bytes(samples[0]["package"])
    return row | ({"failures": failures} if failures else {})


class Busy:
    """A process that never stops, on the CPUs of everybody else."""

    def __init__(self, wanted, cpus):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, cpus)) if wanted else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()


def scaling(models, inputs, rounds, seconds, packages, busy):
    """{kind: {"one_ms", "two_ms"}}: medians of the rounds' medians, each kind's two processes in turn, both on two CPUs."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    row = {}
    for kind, model in models.items():
        pair = {}
        try:
            for threads in (1, 2):
                pair[threads] = Process(kind, model, inputs, threads, packages, cpus)
                pair[threads].reply()
            times = {1: [], 2: []}
            with Busy(busy, cpus):
                for _ in range(rounds):
                    for threads, peer in pair.items():
                        times[threads].append(peer.ask(seconds=seconds)["median_ms"])
            row[kind] = {"one_ms": statistics.median(times[1]), "two_ms": statistics.median(times[2])}
        except RuntimeError as why:
            row.setdefault("failures", {})[kind] = str(why)
        finally:
            for peer in pair.values():
                peer.end()
    return row
