"""Every variant of one file on many processors, emulated: the host's answers, or a refusal with its reason, and no illegal instruction.

    matrix.py FOLDER-OF-THE-TOOLS [--update] [--only TEXT]

Two files for all CPU targets: the digits example, and a product of codes of 8 bits, which has variants with dot instructions. For each
processor of MACHINES: what the probe finds, golden vectors of every variant that fits (mlrun selftest), the digits with each variant
forced, which answers as on the host or is refused (exit code 5; mlrun explain has the features that lack), and the variant that is chosen
unasked. Then files whose labels lie (mislabel.cpp): code of a strong processor under the name of a weak one. The weak processor must
end with a sentence that names the variant, and the next run must leave that out and answer right.
Says `skipped: REASON` where an emulator, a cross compiler or its libraries are missing. `--update` writes the table into README.md;
`--only` takes processors whose name contains the text.
"""
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[:0] = [str(PROJECT / "tests/support"), str(PROJECT / "tests/tools")]
from onnx_file import model, node, port, tensor
from run import EXAMPLE, TOLERANCE, Failure, run, runs_vectors, why_not
from test_cache import test_cache

IMAGE = EXAMPLE / "images/photo_3.jpg"
SVE = "max,sve-default-vector-length="  # bytes
V = "rv64,v=true,vext_spec=v1.0,vlen="
# Architecture, what qemu calls the processor, the variant of digits that it must choose, and that of codes. What qemu's TCG cannot do it takes out
# of a processor (AVX-512 of Icelake-Server): then that is refused by what CPUID says.
MACHINES = [
    ("x86_64", "qemu64", "x86-64-v1", "x86-64-v1"),
    ("x86_64", "core2duo", "x86-64-v1", "x86-64-v1"),
    ("x86_64", "Nehalem", "x86-64-v2", "x86-64-v2"),
    ("x86_64", "SandyBridge", "x86-64-v2", "x86-64-v2"),
    ("x86_64", "Haswell,-xsave", "x86-64-v2", "x86-64-v2"),  # the system does not keep the upper halves
    ("x86_64", "Haswell", "x86-64-v3", "x86-64-v3"),
    ("x86_64", "Skylake-Client", "x86-64-v3", "x86-64-v3"),
    ("x86_64", "Icelake-Server", "x86-64-v3", "x86-64-v3"),
    ("x86_64", "EPYC", "x86-64-v3", "x86-64-v3"),
    ("x86_64", "max,-avx2", "x86-64-v2", "x86-64-v2"),
    ("x86_64", "max", "x86-64-v3", "x86-64-v3"),
    ("aarch64", "cortex-a53", "armv8-a", "armv8-a"),
    ("aarch64", "cortex-a72", "armv8-a", "armv8-a"),
    ("aarch64", "cortex-a76", "armv8-a", "armv8-a+dotprod+fp16"),
    ("aarch64", "neoverse-n1", "armv8-a", "armv8-a+dotprod+fp16"),
    ("aarch64", "a64fx", "armv8-a+sve512", "armv8-a+sve512"),
    ("aarch64", SVE + "16", "armv8-a", "armv8-a+i8mm+bf16"),
    ("aarch64", SVE + "32", "armv8-a+sve256", "armv8-a+i8mm+bf16"),
    ("aarch64", SVE + "64", "armv8-a+sve512", "armv8-a+i8mm+bf16"),
    ("aarch64", SVE + "128", "armv8-a", "armv8-a+i8mm+bf16"),
    ("aarch64", SVE + "256", "armv8-a", "armv8-a+i8mm+bf16"),
    ("riscv64", "rv64,v=false", "rv64gc", "rv64gc"),
    ("riscv64", "sifive-u54", "rv64gc", "rv64gc"),
    ("riscv64", V + "128", "rv64gcv", "rv64gcv"),
    ("riscv64", V + "256", "rv64gcv", "rv64gcv"),
    ("riscv64", V + "512", "rv64gcv", "rv64gcv"),
]
# Architecture and processor, the file, the variant whose label lies, and whose code it has.
WRONG = [
    ("x86_64", "Nehalem", "digits", "x86-64-v1", "x86-64-v3"),
    ("x86_64", "Nehalem", "digits", "x86-64-v2", "x86-64-v3"),
    ("x86_64", "Haswell", "digits", "x86-64-v3", "x86-64-v4"),
    ("aarch64", "cortex-a53", "codes", "armv8-a", "armv8-a+dotprod+fp16"),
    ("aarch64", "neoverse-n1", "codes", "armv8-a+dotprod+fp16", "armv8-a+i8mm+bf16"),
    ("aarch64", "cortex-a53", "digits", "armv8-a", "armv8-a+sve256"),
    ("riscv64", "rv64,v=false", "digits", "rv64gc", "rv64gcv"),
]
# The same where code wants longer registers than the processor has, of instructions that it knows.
SHORT = [
    ("aarch64", SVE + "32", "digits", "armv8-a+sve256", "armv8-a+sve512"),
    ("aarch64", SVE + "128", "digits", "armv8-a", "armv8-a+sve512"),
]


def write_codes(path):
    """y = (x - 3) W of u8 and i8, of several shapes, and some f32 behind it."""
    rng = random.Random(7)
    weights = bytes(rng.randrange(256) for _ in range(96 * 40))
    scale = struct.pack("<40f", *(rng.uniform(-0.01, 0.01) for _ in range(40)))
    path.write_bytes(model(
        [node("MatMulInteger", ["x", "w", "zero"], ["sums"], "sums"), node("Cast", ["sums"], ["wide"], "wide", to=1),
         node("Mul", ["wide", "scale"], ["scaled"], "scaled"), node("Gelu", ["scaled"], ["y"], "y")],
        [port("x", "u8", [5, 96])], [port("y", "f32", [5, 40])],
        [tensor("w", "i8", [96, 40], weights), tensor("zero", "u8", [], bytes([3])), tensor("scale", "f32", [40], scale)], opset=20))


class Machine:
    """mlrun on one processor, with a state of its own: what failed there is remembered there alone."""

    def __init__(self, arch, processor, mlrun, scratch, env):
        self.command = [f"qemu-{arch}-static", "-cpu", processor, str(mlrun)]
        self.env = dict(env, XDG_STATE_HOME=tempfile.mkdtemp(dir=scratch))
        self.name = f"{arch} {processor}"

    def done(self, *arguments):
        done = subprocess.run([*self.command, *map(str, arguments)], env=self.env, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
        # Lines of qemu about what its processor lacks are none of mlrun's.
        done.stderr = "".join(line for line in done.stderr.splitlines(keepends=True) if "TCG doesn't support requested feature" not in line)
        return done

    def json(self, *arguments, code=0):
        done = self.done(*arguments, "--json")
        if done.returncode != code:
            raise Failure(f"{self.name}: mlrun {' '.join(map(str, arguments))}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)


def scores(answer):
    (output,) = answer["outputs"].values()
    return [(entry["label"], entry["score"]) for entry in output]


def same(found, expected, what):
    if found[0][0] != expected[0][0] or any(abs(dict(found).get(label, 0.0) - score) > TOLERANCE for label, score in expected):
        raise Failure(f"{what}: {found}, expected {expected}")


def check_machine(machine, files, chosen, expected):
    """{variant: what became of it} of digits and of codes."""
    told = {}
    probe = machine.json("probe")
    if not probe["schema"].startswith("mlc.probe/"):
        raise Failure(f"{machine.name}: probe: {probe}")
    for name, file in files.items():
        explained = machine.json("explain", file)
        if explained["chosen"] != chosen[name]:
            raise Failure(f"{machine.name}: {name}: {explained['chosen']} is chosen, expected {chosen[name]}")
        fits = {v["name"] for v in explained["variants"] if v["answer"] == "fits"}
        tested = {v["name"] for v in machine.json("selftest", file)["variants"] if v["answer"] == "ok"}
        if tested != fits:
            raise Failure(f"{machine.name}: {name}: golden vectors pass in {sorted(tested)}, but {sorted(fits)} fit")
        for variant in explained["variants"]:
            has = variant["name"] in fits
            if not has and not variant["reason"]:
                raise Failure(f"{machine.name}: {name}: {variant['name']} is refused without a reason")
            told[name, variant["name"]] = "chosen" if variant["name"] == chosen[name] else "runs" if has else "lacks " + variant["missing"][0]["clause"]
            if name == "digits":
                answer = machine.json("run", file, "-i", IMAGE, "--top", 3, "--variant", variant["name"], code=0 if has else 5)
                if has:
                    same(scores(answer), expected, f"{machine.name}: {variant['name']}")
                elif "does not fit this machine" not in answer["message"]:
                    raise Failure(f"{machine.name}: {variant['name']} is refused by '{answer['message']}'")
    same(scores(machine.json("run", files["digits"], "-i", IMAGE, "--top", 3)), expected, machine.name)
    return told


def check_wrong(machine, file, variant, expected, is_digits):
    """A label that lies: the processor stops at the first instruction that it lacks, mlrun says so and does without from then on."""
    done = machine.done("selftest", file, "--variant", variant)
    if done.returncode >= 0 or "illegal instruction" not in done.stderr or variant not in done.stderr:
        raise Failure(f"{machine.name}: code that lies under {variant}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    explained = machine.json("explain", file)
    reason = next(v.get("reason", "") for v in explained["variants"] if v["name"] == variant)
    if explained["chosen"] == variant or "illegal instruction" not in reason:
        raise Failure(f"{machine.name}: {variant} is not left out behind a fault: {reason}")
    if is_digits:
        same(scores(machine.json("run", file, "-i", IMAGE, "--top", 3)), expected, f"{machine.name}, behind a fault")
    machine.json("selftest", file)
    return explained["chosen"]


def check_short(machine, file, variant):
    """Code for longer registers than there are, which no decoder sees: its kernels say so, in a self-test and in a run."""
    for arguments in (("selftest", file, "--variant", variant), ("run", file, "-i", IMAGE, "--variant", variant)):
        done = machine.done(*arguments)
        if done.returncode != 5 or "vector registers of this thread are shorter" not in done.stderr:
            raise Failure(f"{machine.name}: code for longer registers under {variant}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def lying(tools, scratch, env, unsigned, variant, code):
    wrong = scratch / "wrong.mlc"
    run([tools / "mislabel", unsigned, wrong, variant, code], env)
    run([tools / "mlpack", "sign", wrong], env)
    return wrong


def table(rows, variants):
    """One for each family and file, with the columns of that family."""
    lines = []
    for arch, prefix in (("x86_64", "x86-"), ("aarch64", "armv"), ("riscv64", "rv64")):
        mine = [(machine.split(" ", 1)[1], told) for machine, told in rows if machine.startswith(arch)]
        for name in ("digits", "codes"):
            columns = [v for v in variants[name] if v.startswith((prefix, "portable"))]
            lines += ["", f"| {arch}, {name} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
            lines += [f"| {machine} | " + " | ".join(told[name, v] for v in columns) + " |" for machine, told in mine]
    return "\n".join(lines[1:]) + "\n"


def write_readme(text):
    readme = HERE / "README.md"
    begin, end = "<!-- table: begin -->\n", "<!-- table: end -->\n"
    head, rest = readme.read_text().split(begin)
    readme.write_text(head + begin + text + end + rest.split(end)[1])


def build_files(tools, scratch, env):
    codes = scratch / "codes.onnx"
    write_codes(codes)
    files, unsigned = {}, {}
    for name, arguments in {"digits": [EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json"], "codes": [codes]}.items():
        files[name], unsigned[name] = scratch / f"{name}.mlc", scratch / f"{name}.unsigned.mlc"
        run([tools / "mlpack", "build", *arguments, "-o", files[name], "--target", "all"], env)
        run([tools / "mlpack", "build", *arguments, "-o", unsigned[name], "--target", "all", "--no-sign"], env)
    return files, unsigned


def runtimes(tools, scratch):
    """{architecture: its mlrun}; those that cannot be had are said."""
    found = {}
    for arch in ("x86_64", "aarch64", "riscv64"):
        native = os.uname().machine == arch
        reason = (None if shutil.which(f"qemu-{arch}-static") else f"qemu-{arch}-static is not installed") if native else why_not(arch)
        if not reason and arch == "x86_64" and not native:
            reason = "mlrun is not cross-compiled for x86_64"
        if reason:
            print(f"skipped: {reason}")
            continue
        found[arch] = tools / "mlrun" if native else scratch / f"mlrun-{arch}"
        if not native:
            run([HERE / "build_mlrun.sh", arch, found[arch]], dict(os.environ))
    return found


def main(arguments):
    update = "--update" in arguments
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    tools = pathlib.Path(arguments[0]).resolve()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="mlc-matrix-"))
    failed, rows = 0, []
    try:
        env = dict(os.environ, XDG_CONFIG_HOME=str(scratch / "config"), XDG_STATE_HOME=str(scratch / "state"), XDG_CACHE_HOME=str(test_cache()))
        found = runtimes(tools, scratch)
        files, unsigned = build_files(tools, scratch, env)
        expected = scores(json.loads(run([tools / "mlrun", "run", files["digits"], "-i", IMAGE, "--top", 3, "--json"], env)))
        variants = {name: [v["name"] for v in json.loads(run([tools / "mlrun", "explain", file, "--json"], env))["variants"]] for name, file in files.items()}
        for arch, processor, digits, codes in MACHINES:
            if arch not in found or only not in processor:
                continue
            if "v=true" in processor and not runs_vectors():
                print(f"skipped: {processor} (qemu-{arch}-static is older than 8)")
                continue
            machine = Machine(arch, processor, found[arch], scratch, env)
            try:
                rows.append((machine.name, check_machine(machine, files, {"digits": digits, "codes": codes}, expected)))
                print(f"ok    {machine.name}: {digits}, {codes}", flush=True)
            except Failure as failure:
                failed += 1
                print(f"FAIL  {failure}", flush=True)
        for arch, processor, name, variant, code in WRONG + SHORT:
            if arch not in found or only not in processor:
                continue
            machine = Machine(arch, processor, found[arch], scratch, env)
            try:
                wrong = lying(tools, scratch, env, unsigned[name], variant, code)
                if (arch, processor, name, variant, code) in SHORT:
                    check_short(machine, wrong, variant)
                    print(f"ok    {machine.name}: code of {code} under {variant} asks for longer registers", flush=True)
                    continue
                chosen = check_wrong(machine, wrong, variant, expected, name == "digits")
                print(f"ok    {machine.name}: code of {code} under {variant} is an illegal instruction, then {chosen} runs", flush=True)
            except Failure as failure:
                failed += 1
                print(f"FAIL  {failure}", flush=True)
        print(table(rows, variants))
        if update and not failed:
            write_readme(table(rows, variants))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
