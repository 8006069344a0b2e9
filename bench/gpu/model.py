"""How fast a card should run a container, from its plan and its kernels alone: no card is asked. `model.md` has what it says of the nets we watch, and how
good it is against what was measured.

    model.py NET.mlc [--card h100] [--variant cuda-sm90] [--json]     each kernel: launches, blocks, time, what bounds it
"""
import argparse
import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import lanes
import sass

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Card:
    """Beside targets/machines.tbl, which has multiprocessors, warps, memory of blocks and lanes of multiply-adds."""
    name: str
    row: str            # of machines.tbl
    capability: int
    ghz: float          # while products run
    memory: float       # bytes per ns of a copy
    cache: float        # bytes per ns from its L2
    cache_bytes: float
    mma: dict           # multiply-adds of a multiprocessor and cycle by mma.sync, by type of the factors
    wgmma: dict = dataclasses.field(default_factory=dict)  # the same by wgmma, of cards that have it


# H100, H200: copies as cards.md measured them, A100: 90 % of its data sheet (40 GB); clock of the data sheets, 1.755 GHz of H100 under load. L2: public
# microbenchmarks (5.5 to 5.7 TB/s, 3.8 to 4.5). mma.sync: dense rates of the data sheet of A100 (512 of tf32, 1,024 of 16 bits, 2,048 of 8 per cycle); on H100
# 62 % of wgmma's (1,024, 2,048, 4,096), as public tests of mma.sync have it. Those are of the data sheet: 989 Tflop/s of f16 at 132 x 1.83 GHz are 4,096 flop, 2,048
# multiply-adds, of a multiprocessor and cycle.
WGMMA = {"f16": 2048, "bf16": 2048, "i8": 4096}
CARDS = {
    "a100": Card("A100 SXM", "cuda-sm80", 80, 1.41, 1400, 4000, 40e6, {"tf32": 512, "f16": 1024, "bf16": 1024, "i8": 2048}),
    "h100": Card("H100 SXM", "cuda-sm90", 90, 1.755, 2910, 5500, 50e6, {"tf32": 635, "f16": 1270, "bf16": 1270, "i8": 2540}, WGMMA),
    "h200": Card("H200", "cuda-sm90", 90, 1.755, 4050, 5500, 50e6, {"tf32": 635, "f16": 1270, "bf16": 1270, "i8": 2540}, WGMMA),
}
RUN_US, HOST_BYTES = 6.3, 55e3  # a run beside its kernels; bytes per us to and from the processor's memory (cards.md)
# The table of machines has latency_cycles, of a load from global memory, and launch_cycles, of a node of a graph behind the one that it waits for.
SLOT = 2.0                 # cycles of an instruction of a warp that is alone: most wait for one of the two or three before
BARRIER = 40               # cycles
REGISTERS, BLOCKS = 65536, 32  # of a multiprocessor
SMALL_US = 5               # a launch of fewer blocks than half of the multiprocessors that takes as long would gain by more of them


def machine(row):
    """Columns of devices for a row of targets/machines.tbl."""
    text = (ROOT / "targets/machines.tbl").read_text(encoding="utf-8")
    facts = {name: float(eval(default, {})) for name, default in re.findall(r"MLC_DEVICE_COLUMN\(\w+, (\w+), ([^,]+),", text)}
    found = re.search(rf'MLC_DEVICE\("{row}",? ?(.*)\)', text)
    if not found:
        raise ValueError(f"targets/machines.tbl has no row {row!r}")
    return facts | {name: float(number) for name, number in re.findall(r"\.(\w+) = (\d+)", found[1])}


@dataclasses.dataclass
class Launch:
    kernel: int
    name: str
    tiles: int
    scalars: list
    operations: float
    bytes: float


OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
              "floordiv": lambda a, b: a // b, "ceildiv": lambda a, b: -(-a // b), "mod": lambda a, b: a % b,
              "min": min, "max": max, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "and": lambda a, b: a and b,
              "or": lambda a, b: a or b, "not": lambda a: not a, "select": lambda a, b, c: b if a else c}


def symbols_of(body, extents):
    """Symbols of a function (spec/plan.md, section 2), as far as integers and extents of inputs decide them."""
    known = {}
    for name, operation, rest in re.findall(r"^  (\$\d+) = (\w+) ?(.*?)(?:  ;.*)?$", body, re.M):
        operands = rest.split()
        if operation == "const":
            known[name] = int(operands[0])
        elif operation == "dim":
            known[name] = extents(int(operands[0]), int(operands[1]))
        elif operation in OPERATIONS and all(o in known for o in operands):
            known[name] = int(OPERATIONS[operation](*(known[o] for o in operands)))
    return known


def read_plan(text, extents):
    """Launches of `main`, their bytes at the interface, and what is left out: launches whose size the plan alone does not tell."""
    launches, interface, unknown = [], 0, 0
    functions = dict(re.findall(r'^function "([^"]*)" \{\n(.*?)^\}', text, re.M | re.S))
    whole = [functions["main"]] if "main" in functions else []
    if not any(re.search("^  launch ", body, re.M) for body in whole):  # a program, of segments
        whole = [body for name, body in functions.items() if re.fullmatch(r"main\.\d+", name)]
    for body in whole:
        symbols = symbols_of(body, extents)
        interface += sum(symbols.get(b, 0) for b in re.findall(r"^  buffer #\d+ \w+ bytes (\$\d+) (?:input|output) ", body, re.M))
        for kernel, scalars, rest in re.findall(r"^  launch (\d+) \([^)]*\) \(([^)]*)\) (.*)$", body, re.M):
            figures = {key: symbols.get(symbol) for key, symbol in re.findall(r"(tiles|operations|read|written) (\$\d+)", rest)}
            given = [symbols.get(s.strip()) for s in scalars.split(",") if s.strip()]
            if figures.get("tiles") is None or None in given:
                unknown += 1
                continue
            launches.append(Launch(int(kernel), re.search(r'"([^"]*)"', rest)[1], figures["tiles"], given, figures.get("operations") or 0,
                                   (figures.get("read") or 0) + (figures.get("written") or 0)))
    return [launch for launch in launches if launch.tiles > 0], interface, unknown


def anchor(resources):
    """Slots for a product in the loop of SASS with most, where it has tensor cores' or lanes' products."""
    best = None
    for loop in resources.loops:
        for ours, theirs in (("mma", ("HMMA", "IMMA")), ("wgmma", ("HGMMA", "IGMMA")), ("fma", ("FFMA",))):
            products = sum(sass.of_class(loop, name) for name in theirs)
            if products >= (2 if ours == "wgmma" else 8) and (best is None or products > best[2]):
                best = (ours, sum(loop.values()) / products, products)
    return best[:2] if best else None


FUNCTIONS = 16  # results of a multiprocessor and cycle by the unit for powers of two (CUDA's guide, throughput of instructions)


def cycles_of_products(products, card, facts):
    """Of a multiprocessor, for the products of one warp; multiply-adds of lanes are slots already."""
    products, total = {name: times for name, times in products.items() if name != "ex2"}, 0
    for name, times in products.items():
        if "mma" in name:
            unit, kind, shape = name.split(".")
            kind = "i8" if kind in ("s8", "u8", "s32") else kind
            columns, depth = (int(n) for n in re.search(r"n(\d+)k(\d+)", shape).groups())
            total += times * 16 * columns * depth / (card.wgmma if unit == "wgmma" else card.mma)[kind]  # of 64 rows of four warps 16 are one's
        else:
            total += times * 32 / facts["fmas_per_cycle"]
    return total


def time_of(launch, entry, counts, resources, card, facts, cached):
    """Microseconds of a launch without its node, and what bounds it."""
    warps = math.ceil(entry.lanes / 32)
    processors = facts["multiprocessors"]
    registers = max(resources.registers, 16)
    resident = max(1, int(min(BLOCKS, facts["warps"] // warps, REGISTERS // (math.ceil(registers / 8) * 8 * 32 * warps),
                              facts["shared_bytes"] // (entry.shared + 1024))))
    of_block = {"issue": counts.slots * warps / 4, "lsu": counts.cycles_lsu * warps, "products": cycles_of_products(counts.products, card, facts) * warps,
                "functions": counts.products["ex2"] * lanes.WARP / FUNCTIONS * warps}
    bound = max(of_block, key=of_block.get)
    exposed = sum(times * max(0, facts["latency_cycles"] - since * SLOT) for since, times in counts.waits.items())
    # Blocks overlap each other. A block does not overlap itself: between two barriers its warps all load, all store or all multiply.
    alone = max(sum(of_block.values()), counts.slots * SLOT) + exposed + counts.barriers * BARRIER
    busiest = math.ceil(launch.tiles / processors)
    full, rest = divmod(busiest, resident)
    cycles = sum(max(n * of_block[bound], alone) for n in [resident] * full + ([rest] if rest else []))
    waiting = busiest * of_block[bound] < 0.7 * cycles
    times = {("latency" if waiting else bound): cycles / card.ghz / 1e3,
             "memory": launch.bytes / (card.cache if cached else card.memory) / 1e3,
             "cache": counts.sectors * 32 * warps * launch.tiles / card.cache / 1e3}
    # What goes on side by side hinders each other: the root of the squares lies between the longest, which is a bound, and the sum.
    return math.hypot(*times.values()), max(times, key=times.get)


class Container:
    """Plan and kernels of one variant, read by mlpack."""

    def __init__(self, path, variant, bin_dir, dims=()):
        """`dims`: free extents as NAME=NUMBER; others are 1."""
        mlpack, dims = pathlib.Path(bin_dir) / "mlpack", dict(d.split("=") for d in dims)
        told, plans = (json.loads(subprocess.run([mlpack, "inspect", path, "--json", *more], capture_output=True, text=True, check=True).stdout)
                       for more in ([], ["--plan", "--variant", variant]))
        inputs = next(p for p in told["programs"] if p["name"] == "main")["inputs"]
        self.launches, self.interface, self.unknown = read_plan(plans["plans"][variant], lambda k, axis: int(dims.get(str(inputs[k]["shape"][axis]), 1)))
        with tempfile.TemporaryDirectory(prefix="mlc-model-") as folder:
            subprocess.run([mlpack, "extract", path, "--what", "modules", "-o", folder, "-f"], capture_output=True, check=True)
            self.entries, self.texts = sass.read_module((pathlib.Path(folder) / "modules" / f"{variant}.ptx").read_bytes())

    def resources(self, capability):
        out, refused = {}, []
        if sass.tool("ptxas"):
            for text in self.texts.values():
                some, problem = sass.assemble(text, capability)
                out |= some
                refused += [problem] if problem else []
        return out, refused


def model(container, card):
    """A row for each kernel, and sums."""
    facts, (resources, refused) = machine(card.row), container.resources(card.capability)
    node = facts["launch_cycles"] / card.ghz / 1e3
    kernels = {}
    for text in container.texts.values():
        kernels |= lanes.kernels(text)
    small_enough = sum(launch.bytes for launch in container.launches) < card.cache_bytes
    rows, known = {}, {}
    for launch in container.launches:
        entry = container.entries[launch.kernel]
        found = resources.get(entry.name, sass.Resources(registers=64))
        given = [(k + 1) << 40 for k in range(entry.buffers)] + [launch.tiles, 0] + launch.scalars
        key = (launch.kernel, launch.tiles, tuple(launch.scalars))
        if key not in known:
            known[key] = lanes.count(kernels[entry.name], given, launch.tiles, entry.lanes, anchor(found), facts["latency_cycles"] / SLOT)
        us, bound = time_of(launch, entry, known[key], found, card, facts, small_enough)
        row = rows.setdefault(key, {"kernel": launch.kernel, "name": launch.name, "launches": 0, "blocks": launch.tiles, "warps": math.ceil(entry.lanes / 32),
                                    "us": round(us, 2),
                                    "bound": bound if us > node else "launch", "operations": launch.operations, "bytes": launch.bytes,
                                    "registers": found.registers,
                                    "shared": entry.shared, "spilled": found.spilled, "complete": known[key].complete, "by_data": known[key].by_data,
                                    "loop": sass.summary(max(found.loops, key=lambda c: sum(c.values()))) if found.loops else {}})
        row["launches"] += 1
    rows = sorted(rows.values(), key=lambda r: -r["launches"] * (r["us"] + node))
    half = facts["multiprocessors"] / 2
    return {"card": card.name, "multiprocessors": facts["multiprocessors"], "launches": sum(r["launches"] for r in rows), "unknown": container.unknown,
            "few_blocks": sum(r["launches"] for r in rows if r["blocks"] < half),
            "few_and_long": sum(r["launches"] for r in rows if r["blocks"] < half and r["us"] >= SMALL_US),
            "kernels_us": round(sum(r["launches"] * r["us"] for r in rows), 1), "us": round(sum(r["launches"] * (r["us"] + node) for r in rows), 1),
            "with_copies_us": round(sum(r["launches"] * (r["us"] + node) for r in rows) + RUN_US + container.interface / HOST_BYTES, 1),
            "refused": refused, "kernels": rows}


def shown(told):
    lines = [f"{told['card']}: {told['launches']} launches, {told['us']} us, {told['with_copies_us']} from and to the processor's memory; "
             f"{told['few_blocks']} below half of the multiprocessors"]
    for r in told["kernels"]:
        notes = {f"spills {r['spilled']} B": r["spilled"], "(given up: the way of a lane is too long)": not r["complete"], "(its work hangs on data: a lower bound)": r["by_data"]}
        lines.append(f"  {r['launches']:3} x {r['us']:9.2f} us  {r['bound']:8} {r['blocks']:6} x {r['warps']} warps  {r['registers']:3} registers {r['shared']:6} B  "
                     + "  ".join([r["name"][:40], *(note for note, told in notes.items() if told)]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="how fast a card should run a container")
    parser.add_argument("container", type=pathlib.Path)
    parser.add_argument("--card", choices=CARDS, default="h100")
    parser.add_argument("--variant", default="")
    parser.add_argument("--dim", action="append", default=[], help="NAME=NUMBER of a free extent; others are 1")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    card = CARDS[options.card]
    told = model(Container(options.container, options.variant or card.row, options.bin, options.dim), card)
    print(json.dumps({"schema": "mlc.bench_gpu.model/1", **told}, indent=1) if options.json else shown(told))
    return 1 if told["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
