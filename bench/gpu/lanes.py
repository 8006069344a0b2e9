"""What one warp of a kernel does, counted from its PTX without a card: the integers of a lane are computed, since loops, branches and addresses hang on
them alone; loaded numbers are zero, so what depends on data (a search, a sorted list) takes the way of zeros. Instructions of the interface are counted
as the slots that `ptxas` makes of them, about (SLOTS)."""
import collections
import dataclasses
import re

WARP, RECORDED, MOST = 32, 400, 4_000_000  # lanes; accesses of a lane whose addresses are looked at; instructions after which a lane is given up
# Slots of an instruction of PTX where it is not one; the first that fits. By SASS of sm_90 (ptxas 13.0).
SLOTS = [(r"mov|ld\.param|cvt\.[us]64\.[us]32|cvt\.u32\.[us](64|16)|bra\.uni|ret", 0), (r"(div|sqrt|rcp)\.rn\.f32", 9), (r"(div|rem)\.[us]", 30),
         (r"mul\.lo\.[us]64", 4), (r"mad\.lo\.[us]64", 4), (r"cvt\.rn\.b?f16", 2), (r"(div|sqrt|rcp)\.rn\.f64", 40),
         (r"(add|sub|and|or|xor|not|shl|shr|min|max|selp|setp)\S*64", 2), (r"bar\.|barrier\.cluster", 2)]
BARRIERS_OF_CLUSTER = 5  # a barrier of a cluster takes as long as so many of a block: about 200 cycles, by public microbenchmarks of Hopper
GROUP_PRODUCTS = {"f16": 4096, "bf16": 4096, "s8": 8192, "u8": 8192}  # multiply-adds of wgmma in a slot of two cycles, while which copies come nearer
LATENCY = 350  # slots between a load and its number, where the caller does not say it
UNROLLED, SHORT = 4, 120  # turns of a short loop whose loads ptxas brings together, unless the text forbids it; instructions of such a loop


@dataclasses.dataclass
class Instruction:
    name: str
    operands: list
    guard: str = ""
    slots: float = 1


@dataclasses.dataclass
class Counts:
    """Of one warp, from its start to its end. `waits`: pairs of (times, slots since the load) where a loaded number is used."""
    slots: float = 0
    cycles_lsu: float = 0
    sectors: float = 0
    barriers: int = 0
    waits: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    products: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # by class
    complete: bool = True
    by_data: bool = False  # data decide, and a third or more of what loops have was not seen


class Kernel:
    """A kernel of a text of PTX, in blocks of instructions that end with a branch or before a label."""

    def __init__(self, name, body):
        self.name, self.blocks, self.rolled, self.shared = name, [], set(), 0
        labels, current, pending = {}, [], []
        for line in body.splitlines():
            line = line.strip().rstrip(";")
            at = re.match(r"(\$?\w+):", line)
            if at:
                if current:
                    self.blocks.append(current)
                    current = []
                labels[at[1]] = len(self.blocks)
            elif line.startswith(".pragma"):
                self.rolled.add(len(self.blocks))
            elif line and line[0] not in ".{}/)":
                current.append(read(line))
                if re.match(r"bra|ret", current[-1].name):
                    self.blocks.append(current)
                    current = []
        if current:
            self.blocks.append(current)
        self.targets = {k: labels[b[-1].operands[0]] for k, b in enumerate(self.blocks) if b[-1].name.startswith("bra")}
        self.compiled, self.by_data = {}, self.hangs_on_data()

    def hangs_on_data(self):
        """Whether a loaded number decides which way a lane goes within a loop, where the other way is no fault of an index."""
        tainted, before = set(), -1
        while before != len(tainted):
            before = len(tainted)
            for i in (i for block in self.blocks for i in block):
                if i.operands and i.operands[0][0] in "%{" and not i.name.startswith(("st", "bra")):
                    if i.name.startswith(("ld.global", "ld.shared", "atom")) or tainted.intersection(re.findall(r"%\w+", " ".join(i.operands[1:]) + i.guard)):
                        tainted.update(re.findall(r"%\w+", i.operands[0]))
        faults = {k for k, block in enumerate(self.blocks) if any(i.name.startswith("atom") for i in block)}
        after = {k: {self.targets[k]} if k in self.targets and not block[-1].guard else {self.targets.get(k, k + 1), k + 1} for k, block in enumerate(self.blocks) if block[-1].name != "ret"}
        reached = {k: set(ways) for k, ways in after.items()}
        for middle in reached:
            for ways in reached.values():
                if middle in ways:
                    ways |= reached[middle]
        self.looped = {k for k in reached if k in reached[k]}
        return any(self.blocks[k][-1].guard.lstrip("!") in tainted and not (after[k].union(*(after.get(way, ()) for way in after[k])) & faults)
                   for k in self.targets if k in self.looped)

    def functions(self, recording):
        if recording not in self.compiled:
            self.compiled[recording] = [translate(self, k, recording) for k in range(len(self.blocks))]
        return self.compiled[recording]

    def walk(self, environment, lane, recording=False):
        """Blocks in the order in which a lane comes through them; with `recording` its first accesses instead."""
        functions, state, k, done, order, seen = self.functions(recording), dict(environment, **{"%tid.x": lane}), 0, 0, [], []
        while k < len(self.blocks):
            order.append(k)
            done += len(self.blocks[k])
            if done > MOST or (recording and len(seen) >= RECORDED):
                return (order, False) if not recording else (seen, False)
            k = functions[k](state, seen)
        return (seen, True) if recording else (order, True)


def read(line):
    guard = ""
    if line.startswith("@"):
        guard, line = line[1:].split(" ", 1)
    name, _, rest = line.strip().partition(" ")
    operands = [o.strip() for o in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]]+", rest) if o.strip()]
    return Instruction(name, operands, guard, next((slots for pattern, slots in SLOTS if re.match(pattern, name)), 1))


def value(o):
    if re.match(r"-?\d+$", o):
        return o
    if re.match(r"0[xX][0-9a-fA-F]+$", o):
        return str(int(o, 16))
    return f"R.get({o!r}, 0)" if o[0] == "%" else "0"


def signed(text, bits):
    return f"((({text}) + {1 << bits - 1} & {(1 << bits) - 1}) - {1 << bits - 1})"


COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
PLAIN = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "mad": "{} * {} + {}", "and": "{} & {}", "or": "{} | {}", "xor": "{} ^ {}",
         "neg": "-({})", "mov": "{}", "cvt": "{}", "mapa": "{}",
         "min": "min({}, {})", "max": "max({}, {})", "not": "~({})",
         "shl": "{} << min({}, 64)", "shr": "{} >> min({}, 64)", "div": "int({0} / ({1} or 1))", "rem": "({0} - int({0} / ({1} or 1)) * {1})"}


def expression(i):
    """What an instruction computes of integers, as Python; None: a number, or what lanes do together."""
    parts = i.name.split(".")
    kind, typ = parts[0], parts[-1]
    if kind == "cvt":
        if not re.match(r"[us]\d+$", typ) or not re.match(r"[us]\d+$", parts[-2]):
            return None
        typ, source = parts[-2], typ
    if typ == "pred":
        a = [value(o) for o in i.operands[1:]]
        return {"and": "int(%s and %s)", "or": "int(%s or %s)", "xor": "int(%s != %s)", "not": "int(not %s)", "mov": "%s"}[kind] % tuple(a)
    if not re.match(r"[usb](8|16|32|64)$", typ) or any(o[0] == "{" for o in i.operands):
        return None
    bits = int(typ[1:])
    a = [f"({value(o)} & {(1 << bits) - 1})" if typ[0] != "s" else signed(value(o), bits) for o in i.operands[1:]]
    if kind == "setp":
        return f"int({a[0]} {COMPARE[parts[1]]} {a[1]})"
    if kind == "selp":
        return f"({a[0]} if {value(i.operands[3])} else {a[1]})"
    if kind == "bfe":
        p, n = value(i.operands[2]), value(i.operands[3])
        field = f"(({a[0]} >> {p}) & ((1 << {n}) - 1))"
        return f"({field} - ((1 << {n}) if {typ[0]!r} == 's' and ({field} >> ({n} - 1)) & 1 else 0))"
    if kind == "cvt":
        n = int(source[1:])
        return signed(value(i.operands[1]), n) if source[0] == "s" else f"({value(i.operands[1])} & {(1 << n) - 1})"
    if kind == "mul" and parts[1] == "hi":
        return f"({a[0]} * {a[1]} >> {bits})"
    return "(" + PLAIN[kind].format(*a) + ")" if kind in PLAIN else None


def translate(kernel, number, recording):
    """A block as a function of a lane's registers, which returns the number of the next one."""
    lines = []
    for at, i in enumerate(kernel.blocks[number]):
        kind = i.name.split(".")[0]
        before = f"if {'not ' if i.guard.startswith('!') else ''}R.get({i.guard.lstrip('!')!r}, 0): " if i.guard else ""
        if kind == "bra":
            lines.append(f"{before}return {kernel.targets[number]}")
        elif kind in ("ret", "exit"):
            lines.append(f"{before}return {len(kernel.blocks)}")
        elif i.name.startswith("ld.param"):
            lines.append(f"R[{i.operands[0]!r}] = R.get({i.operands[1][1:-1].rsplit('_', 1)[1]!r}, 0)")
        elif kind == "cp":
            if recording and i.operands and i.operands[0][0] == "[":  # the destination is half a place behind the source
                to, source = (o[1:-1].partition("+") for o in i.operands[:2])
                counts = value(i.operands[3]) if len(i.operands) > 3 else "1"
                for place, (base, _, offset), needed in ((at, source, f"if {counts}: "), (at + 0.5, to, "")):
                    lines.append(f"{needed}S.append(({number}, {place}, ({value(base)} + {offset or 0}) & {(1 << 64) - 1}))")
        elif kind in ("ld", "ldmatrix", "st", "atom", "red"):
            if recording and (kind == "ldmatrix" or i.name.split(".")[1] in ("global", "shared", "shared::cluster")):
                base, _, offset = next(o for o in i.operands if o[0] == "[")[1:-1].partition("+")
                lines.append(f"{before}S.append(({number}, {at}, ({value(base)} + {offset or 0}) & {(1 << 64) - 1}))")
            if kind != "st":
                lines += [f"R[{o!r}] = 0" for o in re.findall(r"%\w+", i.operands[0]) if not o.startswith("%f")] if i.operands else []
        elif i.operands and i.operands[0][0] == "%" and not i.operands[0].startswith("%f"):
            text = expression(i) if not i.name.startswith(("setp.num", "setp.nan")) else None
            lines.append(f"{before}R[{i.operands[0]!r}] = {text or 0}")
    scope = {}
    exec("def f(R, S):\n" + "".join(f"  {line}\n" for line in lines) + f"  return {number + 1}\n", scope)
    return scope["f"]


def width(name):
    """Bytes that a lane reads or writes; of a matrix the row that it names."""
    if name.startswith("ldmatrix"):
        return 16
    vector = re.search(r"\.v(\d)\.", name)
    return int(re.search(r"\d+$", name)[0]) // 8 * (int(vector[1]) if vector else 1)


def access_cost(name, addresses):
    """Cycles of the load and store unit, and sectors of 32 bytes, of one access of a warp."""
    size = width(name)
    if ".shared" in name:
        words = collections.defaultdict(set)
        for a in addresses:
            for w in range(a // 4, (a + size + 3) // 4):
                words[w % 32].add(w)
        return max(len(w) for w in words.values()), set()
    sectors = {s for a in addresses for s in range(a // 32, (a + size - 1) // 32 + 1)}
    lines = {s // 4 for s in sectors}
    return max(1, len(lines) / 4, len(sectors) / 4), sectors


def accesses(kernel, environment, lanes):
    """Of each access the average cycles, and sectors that its warp had not loaded before (L1 keeps those), by what the lanes of a warp do in their first turns."""
    seen = [kernel.walk(environment, lane, recording=True)[0] for lane in range(min(lanes, WARP))]
    together, costs, loaded = collections.defaultdict(list), collections.defaultdict(list), set()
    for lane in seen:
        times = collections.Counter()
        for block, at, address in lane:
            together[block, at, times[block, at]].append(address)
            times[block, at] += 1
    for (block, at, _), addresses in together.items():
        name = kernel.blocks[block][int(at)].name
        around = name.startswith("cp.async.cg")  # L1, which keeps nothing of it
        if name.startswith("cp"):
            name = ("ld.global" if at == int(at) else "st.shared") + (".v4.u32" if around else ".u32")
        cycles, sectors = access_cost(name, addresses)
        costs[block, at].append((cycles, len(sectors - loaded)))
        if around:
            continue
        if name.startswith("ld"):
            loaded |= sectors
    return {place: tuple(sum(c[k] for c in of) / len(of) for k in (0, 1)) for place, of in costs.items()}


def product_of(name):
    if name.startswith("mma"):
        return "mma." + name.rsplit(".", 2)[1] + "." + re.search(r"m16n8k\d+", name)[0]
    if name.startswith("wgmma.mma_async"):
        return "wgmma." + name.rsplit(".", 2)[1] + "." + re.search(r"m64n\d+k\d+", name)[0]
    return "fma" if name.startswith("fma") else "ex2" if name.startswith("ex2") else ""


def count(kernel, scalars, tiles, lanes, slots_of_loop=None, latency=LATENCY):
    """Counts of warp 0 of a block in the middle. `slots_of_loop`: slots for a product in the loop that has most, by SASS: (class, figure). `latency`: of a load, in slots."""
    tile = tiles // 2
    environment = {"%ctaid.x": tile % 65535, "%ctaid.y": tile // 65535, **{str(k): v for k, v in enumerate(scalars)}}
    costs = accesses(kernel, environment, lanes)
    order, complete = kernel.walk(environment, 0)
    out, state, memory = Counts(complete=complete), (frozenset(), 0, (), False), {}
    visits = collections.Counter(order)
    unseen = sum(len(kernel.blocks[k]) for k in kernel.looped if k not in visits)
    out.by_data = kernel.by_data and 3 * unseen >= sum(len(kernel.blocks[k]) for k in kernel.looped)
    loops = {k for k in visits if k in kernel.targets and kernel.targets[k] == k and k not in kernel.rolled and len(kernel.blocks[k]) <= SHORT}
    previous = None
    for k in order:
        key = (k, state, previous == k)
        if key not in memory:
            memory[key] = through(kernel.blocks[k], latency, *state)
        waits, state = memory[key]
        for since in waits:
            out.waits[since] += 1 / UNROLLED if k in loops else 1
        previous = k
    for k, times in visits.items():
        block = kernel.blocks[k]
        slots = sum(i.slots for i in block)
        if slots_of_loop:
            anchors = sum(product_of(i.name).startswith(slots_of_loop[0]) for i in block)
            if anchors >= (2 if slots_of_loop[0] == "wgmma" else 4) and times >= 4:
                slots = anchors * slots_of_loop[1]
        out.slots += times * slots
        for at, i in enumerate(block):
            if product_of(i.name):
                out.products[product_of(i.name)] += times
            out.barriers += times * (BARRIERS_OF_CLUSTER if i.name.startswith("barrier.cluster.wait") else i.name.startswith("bar."))
            if i.name.startswith(("ld.global", "st.global", "ld.shared", "ldmatrix", "st.shared", "cp.async.c")) and i.operands:
                for place in (at, at + 0.5) if i.name.startswith("cp") else (at,):
                    cycles, sectors = costs.get((k, place), (1, 0))
                    out.cycles_lsu += times * cycles
                    out.sectors += times * sectors
    return out


def through(block, latency, pending, age, groups, is_open):
    """Waits for loads on the way through a block: slots since the last load when its numbers are used. Within a block ptxas brings loads to the front, so
    those whose addresses do not hang on each other are waited for once. `groups`: of copies beside the lane, slots since the last one of each began, oldest
    first (-1: it has none); `is_open`: whether there are copies in no group. While a lane waits, copies come nearer."""
    waits, pending, depth, waited, groups, products = [], set(pending), {}, 0, list(groups), 0

    def later(slots):
        nonlocal groups
        groups = [min(g + slots, 1000) if g >= 0 else g for g in groups]

    def wait(since):
        waits.append(int(since))
        later(max(0, latency - since))

    for i in block:
        if i.name.startswith("wgmma.mma_async"):
            columns, steps = (int(n) for n in re.search(r"n(\d+)k(\d+)", i.name).groups())
            products += 64 * columns * steps / GROUP_PRODUCTS[i.name.rsplit(".", 1)[1]]
        elif i.name.startswith("wgmma.wait_group"):
            later(products)
            products = 0
        if i.name == "cp.async.commit_group":
            groups, is_open = groups + [0 if is_open else -1], False
        elif i.name == "cp.async.wait_group":
            first = max(0, len(groups) - int(i.operands[0]))
            done, groups = groups[:first], groups[first:]
            if any(g >= 0 for g in done):
                wait(min(g for g in done if g >= 0))
        is_open = is_open or i.name.startswith("cp.async.c") and bool(i.operands)
        loads = i.name.startswith(("ld.global", "ld.shared::cluster"))  # memory of another block is as far as the L2
        written = re.findall(r"%\w+", i.operands[0]) if i.operands and not i.name.startswith(("st", "bra", "bar", "cp")) else []
        used = re.findall(r"%\w+", " ".join(i.operands if not written else i.operands[1:]))
        level = max((depth.get(r, 0) for r in used), default=0)
        moves = i.name.startswith("mov")
        if pending.intersection(used):
            if moves:
                pending.update(written)
            else:
                wait(age)
                pending.clear()
        if level > waited and not moves:
            waited = level
            wait(0)
        for r in written:
            depth[r] = level + loads
            if depth[r] <= waited:
                depth[r] = 0 if not loads else depth[r]
        if loads:
            age = 0
        age = min(age + i.slots, 1000)
        later(i.slots)
    pending.update(r for r, level in depth.items() if level > waited)
    return waits, (frozenset(pending), age, tuple(groups), is_open)


def kernels(text):
    """Kernels of a text of PTX, by name."""
    out = {}
    for part in re.split(r"\.visible \.entry ", text)[1:]:
        name, body = re.match(r"\w+", part)[0], part[part.index("{") + 1:]
        out[name] = Kernel(name, body)
    return out
