"""Whether what runs on the card is right: failures that are made on purpose, golden vectors, node tests, the card's own sanitizer."""
import concurrent.futures
import json
import os
import re

from devices import card_and_tool
from lab import Failed, Skip

NO_VECTORS = 21  # exit code of mlrun selftest
SELFTEST = ["--allow-unsigned", "--time-limit", "none", "--memory-limit", "none", "--devices", "gpu,cpu"]


def failures(lab, devices, prepared):
    """Images that are wrong, memory that is short, a device that is lost: each in a process of its own, and the next one works."""
    for device in devices.values():
        for kind in ("image", "memory", "lost"):
            what = f"failure {kind}, {device.api}"
            answer = lab.part(what, lab.json, what, [lab.bin / "bench_device", "--api", device.api, "--modules", prepared.modules, "--fail", kind], 60)
            if answer and "skipped" in answer:
                lab.skip(what, answer["skipped"])
            elif answer:
                lab.results.setdefault("answers", {})[what] = answer["answers"]


def tested(lab, devices, prepared, model, seconds=120, only=()):
    """{target: (answer, largest relative error, text)} of a container's golden vectors. An answer "none" is a variant that no device took. `only`: more words
    for mlrun."""
    container = prepared.container(lab, model)
    out = lab.run(f"selftest {model.kind}", [lab.bin / "mlrun", "selftest", container, *SELFTEST, *only, "--json"], seconds, codes=(0, 1, 6, 7, NO_VECTORS))
    answer = json.loads(out.strip().splitlines()[-1])
    if answer.get("exit_code") == NO_VECTORS:
        raise Skip("nothing of its outputs makes a golden vector")
    variants = {v["name"]: v for v in answer.get("variants", [])}
    found = {}
    for target in (t for d in devices.values() for t in d.targets()):
        v = variants.get(target)
        if v is None or "device" not in v or v["answer"] == "skip":
            found[target] = ("none", None, v.get("reason", "it was not tested") if v else "the file has no such variant")
        else:
            found[target] = (v["answer"], v.get("max_rel"), v.get("text", v["answer"]))
    return found


def golden(lab, devices, prepared):
    """Every variant on its device answers a golden vector as the reference does."""
    rows = lab.results.setdefault("golden", [])
    for model in prepared.of("small"):
        for target, (answer, error, text) in (lab.part(f"golden vectors, {model.name}", tested, lab, devices, prepared, model) or {}).items():
            rows.append({"model": model.name, "target": target, "answer": answer, "max_rel": error})
            if answer != "ok":
                (lab.skip if answer == "none" else lab.fail)(f"golden vectors, {model.name}, {target}", text)
    if not rows:
        raise Skip("no model in this time")


def conformance(lab, devices, prepared):
    """Node tests by the card's drivers, several processes side by side."""
    models = prepared.of("node")
    if not models:
        raise Skip("no node test was prepared")
    prepared.container(lab, models[0])
    slow = any(d.slow for d in devices.values())
    counts = {}
    with concurrent.futures.ThreadPoolExecutor(1 if slow else min(12, os.cpu_count() or 1)) as pool:
        for model, found in zip(models, pool.map(lambda m: lab.part(f"node test {m.name}", tested, lab, devices, prepared, m, 60), models)):
            for target, (answer, _, text) in (found or {}).items():
                row = counts.setdefault(target, {"passed": 0, "failed": 0, "none": 0})
                row["passed" if answer == "ok" else "none" if answer == "none" else "failed"] += 1
                if answer not in ("ok", "none"):
                    lab.fail(f"node test {model.name}, {target}", text)
    lab.results["conformance"] = [{"path": target, **row} for target, row in counts.items()]


def sanitizer(lab, devices, prepared):
    """NVIDIA's compute-sanitizer over the golden vectors: accesses out of bounds, and races in shared memory."""
    card, program = card_and_tool(devices, "compute-sanitizer")
    work = [(tool, model) for tool in ("memcheck", "racecheck") for model in prepared.of("small")]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = pool.map(lambda w: lab.part(f"{w[0]}, {w[1].name}", sanitized, lab, prepared, program, card, *w), work)
        lab.results["sanitizer"] = [{"tool": tool, "model": model.name, "errors": errors} for (tool, model), errors in zip(work, answers) if errors is not None]


def sanitized(lab, prepared, program, card, tool, model):
    command = [program, "--tool", tool, lab.bin / "mlrun", "selftest", prepared.container(lab, model), *SELFTEST, "--variant", card.targets()[-1]]
    text = lab.run(f"{tool} {model.name}", command, 90, codes=range(256))
    summary = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", text)
    if not summary:
        raise Failed(f"{tool} gave no summary ({tool}_{model.name}.log)")
    if int(summary[1]):
        raise Failed(f"{summary[1]} errors ({tool}_{model.name}.log)")
    return int(summary[1])
