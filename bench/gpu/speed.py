"""How fast: what the device can do at most, what each template gets of it, what runs and starts take beside."""
import statistics
import time

import templates
from checks import build
from lab import Skip

ROUNDS = 2


def ceilings(lab, devices):
    """{api: figures of bench_device}, each the mean of its rounds."""
    found = {}
    for device in devices.values():
        size = ["--bytes", 1 << 20, "--tiles", 4] if device.slow else []
        command = [lab.bin / "bench_device", "--api", device.api, *size, "--seconds", 0.02 if device.slow else 0.5]
        rounds = [lab.part(f"ceilings, {device.api}", lab.json, f"ceilings {device.api}", command, 90) for _ in range(ROUNDS)]
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


def all_templates(lab, devices, found_ceilings):
    rows = lab.results.setdefault("templates", [])
    for device in devices.values():
        for template in templates.ALL:
            row = lab.part(f"template {template.name}, {device.api}", one_template, lab, device, template, found_ceilings.get(device.api))
            if row:
                rows.append(row)


def one_template(lab, device, template, ceiling):
    if lab.left() < 2:
        raise Skip("no time left")
    extents = template.small if device.slow else template.full
    target = device.targets()[-1]
    container = build(lab, templates.write(lab, template, small=device.slow), [target], f"{template.name}-{device.api}", 60)
    command = [lab.bin / "mlrun", "profile", container, "--raw", "--allow-unsigned", "--devices", device.name, "--require", target, "--time-limit", "none",
               "--memory-limit", "none", "--warmup", "20ms" if device.slow else "100ms", "--duration", "50ms" if device.slow else "400ms", "--json"]
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


def start(lab, devices):
    """From the start of a process to its first answer. Code is made by the driver, or comes from its cache, or is a cubin."""
    rows = lab.results.setdefault("start", [])
    chain = [t for t in templates.ALL if t.name in ("softmax-f32",)][0]
    model = templates.write(lab, chain, small=True)
    for device in devices.values():
        target = device.targets()[-1]
        for name, env in states(lab, device):
            row = lab.part(f"start {name}, {device.api}", one_start, lab, device, model, target, name, env)
            if row:
                rows.append(row)


def states(lab, device):
    if device.api == "vulkan":
        off = {"MESA_SHADER_CACHE_DISABLE": "true", "__GL_SHADER_DISK_CACHE": "0"}
        return [("cold", off), ("warm", {"MESA_SHADER_CACHE_DIR": str(lab.out / "cache"), "__GL_SHADER_DISK_CACHE_PATH": str(lab.out / "cache")})]
    return [("text, cold", {"CUDA_CACHE_DISABLE": "1"}), ("text, warm", {"CUDA_CACHE_PATH": str(lab.out / "cache" / "cuda")}), ("cubin", {"CUDA_CACHE_DISABLE": "1"})]


def one_start(lab, device, model, target, name, env):
    container = lab.out / "models" / f"start-{device.api}.mlc"
    if name == "cubin":
        container = cubin_container(lab, device, model, target)
    elif not container.exists():
        build(lab, model, [target], container.stem, 60)
    command = [lab.bin / "mlrun", "bench", container, "--raw", "--allow-unsigned", "--devices", device.name, "--require", target, "--duration", "1ms", "--warmup", "0ms", "--json"]
    if name.endswith("warm"):
        lab.run(f"start {device.api}", command, 60, env)
    walls = []
    for _ in range(2 * ROUNDS):
        begin = time.monotonic()
        lab.run(f"start {device.api}", command, 60, env)
        walls.append(time.monotonic() - begin)
    return {"api": device.api, "state": name, "s": statistics.median(walls), "rounds_s": walls}


def cubin_container(lab, device, model, target):
    if device.slow:
        raise Skip("what runs here takes no cubins")
    container = lab.out / "models" / "start-cubin.mlc"
    if not container.exists():
        lab.run("build start-cubin", [lab.bin / "mlpack", "build", model, "-o", container, "-f", "--no-sign", "--no-selftest", "--progress", "none", "--golden-time", 0,
                                      "--target", target, "--cubin", str(device.facts["cuda.cc"])], 60, codes=(0, 3))
    if not container.exists():
        raise Skip("no ptxas here: the container has PTX alone")
    return container
