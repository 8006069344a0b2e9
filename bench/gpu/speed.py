"""How fast: what the device can do at most, what each template gets of it, what nets, runs and starts take beside."""
import csv
import statistics
import time

import templates
from checks import tested
from devices import card_and_tool
from lab import Skip

ROUNDS = 2
UNLIMITED = ["--allow-unsigned", "--time-limit", "none", "--memory-limit", "none"]


def ceilings(lab, devices, prepared):
    """{api: figures of bench_device}, each the mean of its rounds."""
    found = {}
    for device in devices.values():
        size = ["--bytes", 1 << 20, "--tiles", 1] if device.slow else []
        command = [lab.bin / "bench_device", "--api", device.api, "--modules", prepared.modules, *size, "--seconds", 0.02 if device.slow else 0.3]
        rounds = [lab.part(f"ceilings, {device.api}", lab.json, f"ceilings {device.api}", command, 90) for _ in range(1 if device.slow else ROUNDS)]
        rounds = [r for r in rounds if r]
        if rounds:
            found[device.api] = {**mean(rounds), "rounds": rounds}
    lab.results["ceilings"] = found
    return found


def mean(rounds):
    out = {}
    for key, value in rounds[0].items():
        if isinstance(value, dict):
            out[key] = mean([r[key] for r in rounds])
        elif isinstance(value, float):
            out[key] = statistics.mean(r[key] for r in rounds)
        else:
            out[key] = value
    return out


def all_templates(lab, devices, prepared):
    rows = lab.results.setdefault("templates", [])
    by_name = {t.name: t for t in templates.ALL}
    for device in devices.values():
        for model in prepared.of("full"):
            row = lab.part(f"template {model.name}, {device.api}", one_template, lab, device, prepared, model, by_name[model.name], lab.results.get("ceilings", {}).get(device.api))
            if row:
                rows.append(row)


def one_template(lab, device, prepared, model, template, ceiling):
    if lab.left() < 2:
        raise Skip("no time left")
    if device.slow and not lab.options.slow:
        raise Skip("it was made for a card")
    extents = template.small if device.slow else template.full
    target = device.targets()[-1]
    command = [lab.bin / "mlrun", "profile", prepared.container(lab, model), "--raw", *UNLIMITED, "--devices", device.name, "--variant", target,
               "--warmup", "20ms", "--duration", "50ms" if device.slow else "150ms", "--json"]
    answers = [lab.json(f"template {template.name} {device.api}", command, 60) for _ in range(ROUNDS)]
    # Each launch is submitted by itself there; what a submission takes beside its kernel was measured.
    launches = [l for l in answers[0]["launches"] if l["kernel"] is not None]
    beside = ceiling["run_ns"] + ceiling["launch_ns"] if ceiling else 0
    times = [sum(max(l["median_ns"] - beside, 1) for l in a["launches"] if l["kernel"] is not None) for a in answers]
    if not launches:
        raise Skip("it has no kernel there")
    ns = statistics.mean(times)
    operations, moved = template.operations(*extents), template.bytes(*extents)
    row = {"template": template.name, "api": device.api, "target": target, "extents": extents, "launches": len(launches), "ns": ns, "rounds_ns": times,
           "operations_per_s": operations / ns * 1e9, "bytes_per_s": moved / ns * 1e9, "goal": template.goal}
    if ceiling:
        by_arithmetic, by_memory = operations / ceiling["fma_operations_per_s"], moved / ceiling["copy_bytes_per_s"]
        row["bound"] = "arithmetic" if by_arithmetic > by_memory else "memory"
        row["share"] = max(by_arithmetic, by_memory) / ns * 1e9  # above 1: by units that do more than FMA
    return row


def nets(lab, devices, prepared):
    """Whole models: golden vectors first, then a run from the processor's memory to the processor's memory."""
    rows = lab.results.setdefault("nets", [])
    for device in devices.values():
        for model in prepared.of("net"):
            row = lab.part(f"net {model.name}, {device.api}", one_net, lab, device, prepared, model)
            if row:
                rows.append(row)
    if not rows:
        raise Skip("no model was given (--model)")


def one_net(lab, device, prepared, model):
    target = device.targets()[-1]
    answer, error, text = tested(lab, {device.api: device}, prepared, model, only=("--variant", target))[target]
    if answer != "ok":
        lab.fail(f"net {model.name}, {target}", text)
    dims = [word for dim in model.dims for word in ("--dim", dim)]
    command = [lab.bin / "mlrun", "bench", prepared.container(lab, model), "--raw", *UNLIMITED, "--devices", device.name, "--variant", target, *dims,
               "--warmup", "100ms", "--duration", "400ms", "--json"]
    answers = [lab.json(f"net {model.name} {device.api}", command, 90) for _ in range(ROUNDS)]
    profile = [lab.bin / "mlrun", "profile", *command[2:-5], "--warmup", "50ms", "--duration", "200ms"]
    lab.part(f"profile {model.name}, {device.api}", lab.run, f"profile {model.name} {device.api}", profile, 60)
    return {"net": model.name, "api": device.api, "target": target, "dims": model.dims, "answer": answer, "max_rel": error, "rounds": answers}


COUNTED = {"gpu__time_duration.sum": "time", "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM %", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory %",
           "sm__warps_active.avg.pct_of_peak_sustained_active": "warps %", "launch__registers_per_thread": "registers", "launch__grid_size": "blocks",
           "smsp__inst_executed_pipe_tensor.sum": "tensor instructions", "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "stalled by loads"}


def counters(lab, devices, prepared):
    """The card's counters of each template's kernels, by NVIDIA's ncu."""
    card, program = card_and_tool(devices, "ncu")
    rows = lab.results.setdefault("counters", [])
    for model in prepared.of("full"):
        command = [program, "--clock-control", "none", "--csv", "--launch-count", "4", "--metrics", ",".join(COUNTED), lab.bin / "mlrun", "bench",
                   prepared.container(lab, model), "--raw", *UNLIMITED, "--devices", card.name, "--variant", card.targets()[-1], "--warmup", "0ms", "--duration", "1ms"]
        text = lab.part(f"counters, {model.name}", lab.run, f"counters {model.name}", command, 40)
        lines = [line for line in (text or "").splitlines() if line.startswith('"')]
        for line in csv.DictReader(lines):
            if line.get("Metric Name") in COUNTED:
                rows.append({"template": model.name, "kernel": line["Kernel Name"], "launch": line["ID"], "what": COUNTED[line["Metric Name"]], "value": line["Metric Value"],
                             "unit": line["Metric Unit"]})


def start(lab, devices, prepared):
    """From the start of a process to its first answer. Code is made by the driver, or comes from its cache, or is a cubin."""
    rows = lab.results.setdefault("start", [])
    containers = {m.name: prepared.container(lab, m) for m in prepared.of("start")}
    for device in devices.values():
        for name, container, env in states(lab, device):
            if container not in containers or container == "cubin" and device.slow:
                lab.skip(f"start {name}, {device.api}", "what runs here takes no cubins" if device.slow else "no ptxas where the containers were made")
                continue
            row = lab.part(f"start {name}, {device.api}", one_start, lab, device, containers[container], name, env)
            if row:
                rows.append(row)


def states(lab, device):
    if device.api == "vulkan":
        off = {"MESA_SHADER_CACHE_DISABLE": "true", "__GL_SHADER_DISK_CACHE": "0"}
        kept = {"MESA_SHADER_CACHE_DIR": str(lab.out / "cache"), "__GL_SHADER_DISK_CACHE_PATH": str(lab.out / "cache")}
        return [("cold", "text", off), ("warm", "text", kept)]
    off = {"CUDA_CACHE_DISABLE": "1"}
    return [("text, cold", "text", off), ("text, warm", "text", {"CUDA_CACHE_PATH": str(lab.out / "cache" / "cuda")}), ("cubin", "cubin", off)]


def one_start(lab, device, container, name, env):
    command = [lab.bin / "mlrun", "bench", container, "--raw", *UNLIMITED, "--devices", device.name, "--variant", device.targets()[-1], "--duration", "1ms", "--warmup", "0ms", "--json"]
    if name.endswith("warm"):
        lab.run(f"start {device.api}", command, 60, env)
    walls = []
    for _ in range(2 * ROUNDS):
        begin = time.monotonic()
        lab.run(f"start {device.api}", command, 60, env)
        walls.append(time.monotonic() - begin)
    return {"api": device.api, "state": name, "s": statistics.median(walls), "rounds_s": walls}
