"""The table: what was measured, beside what the device can do and what others take."""
import statistics


def amount(value, unit):
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def time_of(ns):
    return f"{ns / 1e9:.3g} s" if ns >= 1e9 else f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} us" if ns >= 1e3 else f"{ns:.0f} ns"


def rows_of(results):
    """(what, by, figure, share of the ceiling, peers, goal)"""
    for api, c in results.get("ceilings", {}).items():
        yield ("copy", api, amount(c["copy_bytes_per_s"], "B/s"), "", "", "")
        yield ("fused multiply-adds", api, amount(c["fma_operations_per_s"], "op/s"), "", "", "")
        yield ("launch", api, time_of(c["launch_ns"]), "", f"first time {time_of(c['first_submission_ns_per_launch'])}, recorded in {time_of(c['record_ns_per_launch'])}", "1.5 us")
        yield ("run beside its kernels", api, time_of(c["run_ns"]), "", "", "20 us")
        for name, copy in c["copies"].items():
            yield (f"upload, {amount(copy['bytes'], 'B')}", api, amount(copy["up_bytes_per_s"], "B/s"), "", f"down {amount(copy['down_bytes_per_s'], 'B/s')}", "80 % of the link")
    for row in results.get("templates", []):
        by_memory = row.get("bound") == "memory" or "bound" not in row
        rate = amount(row["bytes_per_s"], "B/s") if by_memory else amount(row["operations_per_s"], "op/s")
        others = [f"{peer} {time_of(times[row['template']])}" for peer, times in results.get("peers", {}).items() if row["template"] in times]
        share = f"{100 * row['share']:.0f} % of {'copy' if by_memory else 'FMA'}" if "share" in row else ""
        shape = "x".join(map(str, row["extents"]))
        yield (f"{row['template']} {shape}", row["api"], f"{time_of(row['ns'])}, {rate}", share, "; ".join(others), row["goal"])
    for row in results.get("nets", []):
        ns = statistics.mean(r["latency_ns"]["p50"] for r in row["rounds"])
        others = [f"{peer} {time_of(times[row['net']])}" for peer, times in results.get("peers", {}).items() if row["net"] in times]
        error = f"error {row['max_rel']:.1e}" if row["max_rel"] is not None else row["answer"]
        yield (" ".join([row["net"], *row["dims"]]), row["target"], time_of(ns), error, "; ".join(others), "")
    yield from counted(results.get("counters", []))
    for row in results.get("start", []):
        yield (f"start, {row['state']}", row["api"], time_of(row["s"] * 1e9), "", "", "")
    for row in results.get("conformance", []):
        total = row["passed"] + row["failed"] + row["none"]
        yield ("node tests", row["path"], f"{row['passed']} of {total} pass", "", f"{row['failed']} fail, {row['none']} without code for a device", "all")
    for tool in dict.fromkeys(row["tool"] for row in results.get("sanitizer", [])):
        of_it = [row for row in results["sanitizer"] if row["tool"] == tool]
        yield (f"compute-sanitizer, {tool}", "cuda", f"{sum(row['errors'] == 0 for row in of_it)} of {len(of_it)} models without an error", "", "", "all")
    golden = results.get("golden", [])
    for target in dict.fromkeys(row["target"] for row in golden):
        of_it = [row for row in golden if row["target"] == target]
        yield ("golden vectors", target, f"{sum(row['answer'] == 'ok' for row in of_it)} of {len(of_it)} models", "", "", "all")
    for what, answers in results.get("answers", {}).items():
        yield (what, "", f"{len(answers)} answers as they should be", "", "", "")


def counted(rows):
    """A line for each kernel that ncu looked at."""
    kernels = {}
    for row in rows:
        kernels.setdefault((row["template"], row["launch"], row["kernel"]), []).append(f"{row['what']} {row['value']}{' ' + row['unit'] if row['what'] == 'time' else ''}")
    for (template, _, kernel), values in kernels.items():
        yield (f"counters, {template}", kernel[:40], "; ".join(values), "", "", "")


def table(results):
    head = ("what", "by", "figure", "of the ceiling", "others", "goal")
    rows = [head, *rows_of(results)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines += [f"skipped: {s['what']}: {s['why']}" for s in results["skipped"]] + [f"FAILED: {f['what']}: {f['why']}" for f in results["failures"]]
    devices = [f"{d['title']}, {d['api']} ({d['driver']})" for d in results.get("devices", [])]
    return "\n".join([*(devices or ["no device"]), "", *lines]) + "\n"
