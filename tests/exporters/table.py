"""RESULTS.md from the records of a run: what failed first, then a row per model, by family."""
import statistics

FAR = 0.05  # of the largest value: what differs by more, as ONNX Runtime does from itself, has not been shown to be right

STAGES = {"export": "not exported", "build": "does not build", "compare": "differs", "time": "cannot be timed"}


def short(message, length=220):
    line = " ".join(message.split()).replace("|", "\\|")
    return line if len(line) <= length else line[:length] + " …"


def ratio(record):
    times = record.get("time") or {}
    return times["theirs_ms"] / times["ours_ms"] if times.get("theirs_ms") and times.get("ours_ms") else None


def row(record):
    built, compared, times = (record.get(stage) or {} for stage in ("build", "compare", "time"))

    def cell(value, form):
        return format(value, form) if value is not None else ""
    return "| " + " | ".join([
        record["name"], cell(compared.get("difference"), ".1e"), cell(built.get("seconds"), ".1f"), cell(built.get("peak_mb"), "d"),
        cell(times.get("ours_ms"), ".3g"), cell(times.get("theirs_ms"), ".3g"), cell(ratio(record), ".2f")]) + " |"


def summary(records):
    fine = [r for r in records if not r["failed"]]
    ratios = sorted(x for x in map(ratio, fine) if x)
    seconds = [r["build"]["seconds"] for r in fine]
    far = [r for r in fine if (r.get("compare") or {}).get("difference", 0) > FAR]
    yield f"{len(records)} models of {len({r['architecture'] for r in records})} architectures; {len(fine)} build, {len(fine) - len(far)} agree."
    if far:
        names = ", ".join(f"{r['name']} ({r['compare']['difference']:.2g}, itself {r['compare']['allowed'] / 1.5:.2g})" for r in far)
        yield f"Far apart, as ONNX Runtime is from itself, which tells little: {names}."
    if ratios:
        yield (f"ONNX Runtime's time over ours: geometric mean {statistics.geometric_mean(ratios):.2f}, median {statistics.median(ratios):.2f}, "
               f"least {ratios[0]:.2f}; {sum(x < 1 for x in ratios)} of {len(ratios)} are slower than ONNX Runtime.")
        yield f"Build: median {statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s."
    yield from order(fine)


def order(records):
    moved = [f"{r['name']} ({r['compare']['moved']})" for r in records if (r.get("compare") or {}).get("moved")]
    if moved:
        yield ("Boxes whose scores differ by less than a thousandth of the largest are compared in whichever order they come; "
               f"rows that came in another one, in both cases together: {', '.join(moved)}.")


def table(records, description):
    lines = ["# Results", "", description, "", *summary(records), ""]
    failed = [r for r in records if r["failed"]]
    if failed:
        lines += ["## Failures", "", "| model | what | message |", "| --- | --- | --- |"]
        lines += [f"| {r['name']} | {STAGES[r['failed']]} | {short(r['message'])} |" for stage in ("build", "compare", "time", "export") for r in failed if r["failed"] == stage]
        lines.append("")
    for family in dict.fromkeys(r["family"] for r in records):
        lines += [f"## {family.capitalize()}", "", "| model | difference | build, s | peak, MB | ms | ONNX Runtime, ms | ratio |",
                  "| --- | --- | --- | --- | --- | --- | --- |"]
        lines += [row(r) for r in records if r["family"] == family and r["failed"] != "export"] + [""]
    return "\n".join(lines).rstrip() + "\n"
