"""What a comparison found, as tables and as a page with plots."""
import html
import math

NAMES = {"mlrt": "mlrt", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def number(value):
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def time_of(row, kind, what="min_ms"):
    return row[kind][what] if kind in row else None


def best_peer(row, what="min_ms"):
    """The faster of the others: (its kind, its figure); None where none runs the model."""
    times = [(row[k][what], k) for k in ("onnxruntime", "openvino") if k in row]
    return min(times) if times else None


def ratio(row, what="min_ms"):
    """The faster peer's figure over ours: above 1 ours is the smaller one."""
    peer, ours = best_peer(row, what), time_of(row, "mlrt", what)
    return peer[0] / ours if peer and ours else None


def gain(row, what="min_ms"):
    """The other build's figure over this one's: above 1 this one is the smaller."""
    return row["before"][what] / row["mlrt"][what] if "before" in row and "mlrt" in row else None


def geometric_mean(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def worst(row):
    found = [d for d in row["difference"].values() if d is not None]
    return f"{max(found):.0e}" if found else ""


def line(row):
    times = "  ".join(f"{NAMES[k]} {number(row[k]['min_ms'])}" for k in NAMES if k in row)
    times += f"  before {number(row['before']['min_ms'])} ({number(gain(row))})" if "before" in row else ""
    failed = "".join(f"  {NAMES.get(k, k)}: {why}" for k, why in row.get("failures", {}).items())
    return f"{row['case']:36} {row['threads']} threads  {number(ratio(row)) or '-':>5}  ms: {times}  difference {worst(row)}{failed}"


def summary(results):
    lines = []
    for threads in sorted({r["threads"] for r in results["rows"]}):
        rows = [r for r in results["rows"] if r["threads"] == threads]
        ratios = [ratio(r) for r in rows if ratio(r)]
        if not ratios:
            continue
        medians = geometric_mean([ratio(r, "median_ms") for r in rows])
        lines.append(f"{threads} thread{'s' * (threads > 1)}: geometric mean {geometric_mean(ratios):.2f} (of medians {medians:.2f}) over {len(ratios)} cases, "
                     f"least {min(ratios):.2f}; {sum(v < 1 for v in ratios)} are slower than the faster peer.")
        gains = [gain(r) for r in rows if gain(r)]
        if gains:
            lines[-1] += (f" Before over after: geometric mean {geometric_mean(gains):.2f} (of medians {geometric_mean([gain(r, 'median_ms') for r in rows]):.2f}), "
                          f"least {min(gains):.2f}; {sum(v < 0.97 for v in gains)} are more than 3 % slower than before.")
    return lines


def states_line(row):
    """A line for the terminal of what states.py found."""
    parts = [f"{row['case']:36}"]
    for kind in NAMES:
        words = []
        if kind in row.get("start", {}):
            s = row["start"][kind]
            words.append(f"start {number(s['start_ms'])} ms, {number(s['rss_mb'])} MB")
        words += [f"{name} {number(row[name][kind]['one_ms'] / row[name][kind]['two_ms'])}x" for name in ("busy", "idle") if kind in row.get(name, {})]
        if words:
            parts.append(f"{NAMES[kind]}: {', '.join(words)}")
    return "  ".join(parts)


# (title, text, columns of a peer, its figures) of what states.py found.
def _start_figures(s):
    return (s["start_ms"], s["first_ms"], s["open_ms"], s["rss_mb"], s["model_bytes"] / 1e6)


def _scaling_figures(s):
    return (s["one_ms"], s["two_ms"], s["one_ms"] / s["two_ms"])


STATES = {
    "start": ("A fresh process", "Least times of fresh processes, all runtimes in turn, files in the system's cache: milliseconds from the start of the process "
              "(Python and numpy, the same for all, included) to the first answer; from opening the model to the first answer; opening alone; the peak of "
              "resident memory of the process; the model's file.", ("start ms", "first ms", "open ms", "RSS MB", "file MB"), _start_figures),
    "busy": ("Beside a busy process", "Another process never stops on the same two CPUs. Medians with one thread and with two, and what the second one brings.",
             ("1 thread ms", "2 threads ms", "gain"), _scaling_figures),
    "idle": ("Lengths", "Medians with one thread and with two, and what the second one brings.", ("1 thread ms", "2 threads ms", "gain"), _scaling_figures),
}


def state_tables(results):
    """[(title, text, head, rows)]"""
    found = []
    for name, (title, text, columns, figures) in STATES.items():
        rows = [[row["case"], *(number(v) for kind in NAMES for v in (figures(row[name][kind]) if kind in row[name] else [None] * len(columns)))]
                for row in results.get("states", []) if name in row]
        if rows:
            found.append((title, text, ["case", *(f"{NAMES[kind]}: {c}" if k == 0 else c for kind in NAMES for k, c in enumerate(columns))], rows))
    if any("start" in row for row in results.get("states", [])):
        bytes_of = {k: next((r["start"][k]["runtime_bytes"] for r in results["states"] if k in r.get("start", {})), None) for k in NAMES}
        title, text, head, rows = found[0]
        sizes = ", ".join(f"{NAMES[k]} {number(b / 1e6)} MB" for k, b in bytes_of.items() if b)
        found[0] = (title, f"{text} Files of the runtimes' Python packages: {sizes}.", head, rows)
    return found


def table(results):
    versions = {k: next((r[k]["version"] for r in results["rows"] if k in r), None) for k in NAMES}
    out = ["# Comparison", "", f"{results['machine']}. " + ", ".join(f"{NAMES[k]} {v}" for k, v in versions.items() if v) +
           ". Milliseconds, the least of interleaved rounds; `ratio` is the faster peer's time over ours, above 1 ours is faster; `medians` the same of the "
           "medians; `difference` is the largest to either peer, relative to the largest value of an output.", "",
           f"    {results['command']}", "", *summary(results), ""]
    if results["missing"]:
        out += ["Not here: " + ", ".join(results["missing"]) + ".", ""]
    families = list(dict.fromkeys(r["family"] for r in results["rows"]))
    for family in families:
        out += [f"## {family[0].upper()}{family[1:]}", "", "| case | threads | mlrt | ONNX Runtime | OpenVINO | ratio | medians | difference |",
                "| --- | --- | --- | --- | --- | --- | --- | --- |"]
        for row in results["rows"]:
            if row["family"] == family:
                cells = [row["case"], row["threads"], *(number(time_of(row, k)) or "fails" for k in NAMES), number(ratio(row)), number(ratio(row, "median_ms")), worst(row)]
                out.append("| " + " | ".join(map(str, cells)) + " |")
        out.append("")
    if any("before" in row for row in results["rows"]):
        out += ["## Before and after", "", "The build of another checkout, in the same turns: milliseconds, the least and the median of rounds, and before over after.", "",
                "| case | threads | before | after | ratio | medians: before | after | ratio |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
        for row in results["rows"]:
            if gain(row):
                cells = [row["case"], row["threads"], *(number(v) for what in ("min_ms", "median_ms")
                                                        for v in (row["before"][what], row["mlrt"][what], gain(row, what)))]
                out.append("| " + " | ".join(map(str, cells)) + " |")
        out.append("")
    if results["rows"]:
        out += ["## Start, memory, files", "", "From opening the file to the first answer, the program and its libraries loaded before; memory is the growth of the "
                "resident set's peak; one thread.", "",
                "| case | first answer, ms: mlrt | ONNX Runtime | OpenVINO | memory, MB: mlrt | ONNX Runtime | OpenVINO | file, MB: .onnx | .mlc |",
                "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
        for row in results["rows"]:
            if row["threads"] == min(r["threads"] for r in results["rows"]):
                cells = [row["case"], *(number(time_of(row, k, "first_ms")) for k in NAMES), *(number(time_of(row, k, "peak_mb")) for k in NAMES),
                         *(number(row["bytes"][k] / 1e6) for k in ("onnx", "mlc"))]
                out.append("| " + " | ".join(map(str, cells)) + " |")
    for title, text, head, rows in state_tables(results):
        out += ["", f"## {title}", "", text, "", "| " + " | ".join(head) + " |", "| --- " * len(head) + "|", *("| " + " | ".join(row) + " |" for row in rows)]
    failures = [(r["case"], k, why) for r in results["rows"] for k, why in r.get("failures", {}).items()]
    if failures:
        out += ["", "## Failures", ""] + [f"- {case}, {NAMES.get(k, k)}: {why}" for case, k, why in dict.fromkeys(failures)]
    return "\n".join(out) + "\n"


def bars(rows):
    """An SVG: a bar for each case, from 1 to the right where ours is faster, to the left where it is slower."""
    height, left, width = 18, 300, 520
    span = max([2.0] + [max(ratio(r), 1 / ratio(r)) for r in rows])
    place = lambda v: left + width / 2 * (1 + math.log(v) / math.log(span))
    out = [f'<svg width="{left + width + 80}" height="{height * len(rows) + 24}" role="img">']
    for tick in (v for v in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32) if 1 / span <= v <= span):
        out.append(f'<line x1="{place(tick):.1f}" x2="{place(tick):.1f}" y1="0" y2="{height * len(rows)}" class="{"one" if tick == 1 else "tick"}"/>'
                   f'<text x="{place(tick):.1f}" y="{height * len(rows) + 16}" class="middle">{tick:g}</text>')
    for k, row in enumerate(rows):
        value, y = ratio(row), k * height
        start, end = sorted((place(1), place(value)))
        out.append(f'<text x="{left - 8}" y="{y + 13}" class="end">{html.escape(row["case"])}</text>'
                   f'<rect x="{start:.1f}" y="{y + 3}" width="{max(end - start, 1):.1f}" height="{height - 6}" class="{"win" if value >= 1 else "loss"}"/>'
                   f'<text x="{end + 4:.1f}" y="{y + 13}">{value:.2f}</text>')
    return "".join(out) + "</svg>"


def page(results):
    parts = ["<!doctype html><meta charset=utf-8><title>Comparison</title><style>body{font:14px sans-serif;margin:2em}svg text{font:12px sans-serif}"
             ".end{text-anchor:end}.middle{text-anchor:middle}.tick{stroke:#ddd}.one{stroke:#333}td,th{padding:2px 8px;text-align:right}td:first-child{text-align:left}.win{fill:#3a7d44}.loss{fill:#b23a48}</style>",
             f"<h1>Comparison</h1><p>{html.escape(results['machine'])}<p><code>{html.escape(results['command'])}</code>"
             "<p>The faster peer's time over ours, least times: to the right ours is faster, to the left it is slower."]
    parts += [f"<p>{html.escape(text)}" for text in summary(results)]
    for threads in sorted({r["threads"] for r in results["rows"]}):
        rows = [r for r in results["rows"] if r["threads"] == threads and ratio(r)]
        parts.append(f"<h2>{threads} thread{'s' * (threads > 1)}</h2>{bars(rows)}" if rows else "")
    for title, text, head, rows in state_tables(results):
        cells = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}' for c in row)}" for row in rows)
        parts.append(f"<h2>{title}</h2><p>{html.escape(text)}<table><tr>{''.join(f'<th>{html.escape(c)}' for c in head)}{cells}</table>")
    return "\n".join(parts) + "\n"
