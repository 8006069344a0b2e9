#!/usr/bin/env python3
"""Models as users export them: exported, built, compared with ONNX Runtime and timed against it, one after the other.

    suite.py --bin build/release/bin [--venv DIR] [--cache DIR] [--only PATTERN ...] [--again | --recorded] [--table RESULTS.md]

Exports and records are kept in the cache (default: $MLC_EXPORTS, else build/exporters), so that a run that was interrupted goes
on where it stopped. A model is measured again when its export changed, when it failed and the tools changed, or with --again; the
table says at which commits its models were. Needs requirements.txt from PyPI: in the interpreter at hand, or in the virtual
environment --venv, which is made where it is missing.
"""
import argparse
import collections
import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import venv

HERE = os.path.dirname(os.path.abspath(__file__))


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of mlpack and mlrun")
    parser.add_argument("--venv", help="virtual environment to run in; made, with requirements.txt, where it is missing")
    parser.add_argument("--cache", default=os.environ.get("MLC_EXPORTS", os.path.join(HERE, "..", "..", "build", "exporters")))
    parser.add_argument("--only", nargs="*", default=[], help="names (patterns as of a shell) or families")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--again", action="store_true", help="build again what has a record")
    parser.add_argument("--export-only", action="store_true", help="fill the cache and stop")
    parser.add_argument("--recorded", action="store_true", help="measure nothing: the table of what the cache has records of")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a build or an export may take")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each runtime in each round")
    parser.add_argument("--table", help="write the table of all records here")
    return parser.parse_args()


def in_venv(folder):
    """Runs this command in a virtual environment, made where it is missing."""
    python = os.path.join(folder, "bin", "python")
    if os.path.realpath(sys.prefix) == os.path.realpath(folder):
        return
    if not os.path.exists(python):
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", os.path.join(HERE, "requirements.txt")], check=True)
    os.execv(python, [python, *sys.argv])


def digest(*paths):
    found = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as f:
            found.update(hashlib.file_digest(f, "sha256").digest())
    return found.hexdigest()[:16]


def export_alone(model, folder):
    """In a process of its own: what one library leaves behind (memory, settings, a crash) does not reach the next model."""
    import export as exporter
    log = os.open(os.path.join(folder, "export.log"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    exporter.export(model, folder)


def export(model, folder, limit):
    """The folder of the export, made where it is missing; a message where that failed. A failure is remembered, too."""
    said = os.path.join(folder, "failed.txt")
    if os.path.exists(said):
        with open(said) as f:
            return f.read()
    if os.path.exists(os.path.join(folder, "case2.npz")):
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    child = multiprocessing.get_context("fork").Process(target=export_alone, args=(model, folder))
    child.start()
    child.join(limit)
    if child.exitcode is None:
        child.terminate()
        child.join()
        message = f"more than {limit:g} s"
    elif child.exitcode:
        with open(os.path.join(folder, "export.log"), errors="replace") as log:
            message = next((line for line in reversed(log.read().splitlines()) if line.strip()), f"exit {child.exitcode}")
    else:
        message = ""
    message = message.replace(folder + os.sep, "")
    if message:
        with open(said, "w") as f:
            f.write(message)
    return message


def measured(model, folder, tools, args):
    """The record of one exported model: stages until one fails."""
    import build
    import compare
    import timing
    record = {"name": model.name, "family": model.family, "architecture": model.architecture, "failed": "", "message": ""}
    container = os.path.join(folder, "model.mlc")
    stages = {
        "build": lambda: build.build(tools["mlpack"], os.path.join(folder, "model.onnx"), container, model.build, args.limit),
        "compare": lambda: compare.compare(model, folder, container, tools["mlrun"]),
        "time": lambda: timing.timed(model, folder, container, tools["mlrun"], args.rounds, args.seconds),
    }
    for stage, run in stages.items():
        try:
            record[stage] = run()
            message = record[stage].get("message", "") if record[stage].get("code", 1) != 0 else ""
        except Exception as error:  # noqa: BLE001  any failure of a library is a row of the table
            message = f"{type(error).__name__}: {error}"
        if message:
            record["failed"], record["message"] = stage, message.replace(folder + os.sep, "")
            break
    if os.path.exists(container):
        os.remove(container)
    return record


def commit_of(folder):
    return subprocess.run(["git", "-C", folder, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


def described(records, registered, recorded):
    """What ran where."""
    import onnxruntime
    import torch
    import transformers
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    commits = collections.Counter(r["commit"] for r in records if "commit" in r)
    load = "" if recorded else f"Load of the machine at the end: {os.getloadavg()[2]:.1f}. "
    measured_at = ", ".join(f"{commit} ({count} models)" for commit, count in commits.most_common())
    return (f"{len(records)} of the {registered} models of the suite, measured at commit {measured_at}; {model}, {os.cpu_count()} cores; "
            f"PyTorch {torch.__version__}, transformers {transformers.__version__}, ONNX Runtime {onnxruntime.__version__}. "
            f"{load}One thread, `mlpack build --target native`, times are the least of interleaved rounds; "
            "`ratio` is ONNX Runtime's time over ours, `difference` is relative to the largest value of an output.")


def main():
    args = parsed()
    if args.venv:
        in_venv(os.path.abspath(args.venv))
    sys.path.insert(0, HERE)
    import registry
    models = registry.selected(args.only)
    if args.list:
        print("\n".join(f"{m.name:40} {m.family:16} {m.architecture}" for m in models))
        return 0
    try:
        import onnxruntime  # noqa: F401
        import torch  # noqa: F401  once, for all that are exported
    except ImportError as error:
        print(f"skipped: the exporters' suite ({error}); give --venv DIR")
        return 0
    tools = {tool: os.path.abspath(os.path.join(args.bin, tool)) for tool in ("mlpack", "mlrun")}
    of_tools, commit, records, bad = digest(*tools.values()), commit_of(HERE), [], 0
    for model in models:
        folder = os.path.join(os.path.abspath(args.cache), model.name)
        if args.recorded and not any(os.path.exists(os.path.join(folder, name)) for name in ("record.json", "failed.txt")):
            continue
        message = export(model, folder, args.limit)
        if args.export_only:
            print(f"{model.name:40} {message[:160]}", flush=True)
            continue
        kept = os.path.join(folder, "record.json")
        record = {"name": model.name, "family": model.family, "architecture": model.architecture, "failed": "export", "message": message}
        if not message:
            of_export = digest(os.path.join(folder, "model.onnx"))
            record = json.load(open(kept)) if os.path.exists(kept) else {}
            stale = record.get("export") != of_export or (record["failed"] and record.get("tools") != of_tools)
            if (args.again or stale) and not args.recorded:
                record = measured(model, folder, tools, args) | {"tools": of_tools, "export": of_export, "commit": commit}
                with open(kept, "w") as f:
                    json.dump(record, f)
        bad += record["failed"] in ("build", "compare", "time")
        print(f"{model.name:40} {said(record)}", flush=True)
        records.append(record)
    if args.table and records:
        import table
        with open(args.table, "w") as f:
            f.write(table.table(records, described(records, len(models), args.recorded)))
    return 1 if bad else 0


def said(record):
    import table
    if record["failed"]:
        return f"{table.STAGES[record['failed']].upper()}: {table.short(record['message'], 300)}"
    ratio = table.ratio(record)
    return f"{record['compare']['difference']:.1e}  build {record['build']['seconds']:.1f} s, {record['build']['peak_mb']} MB" + (f"  ratio {ratio:.2f}" if ratio else "")


if __name__ == "__main__":
    sys.exit(main())
