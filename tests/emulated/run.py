"""The digits example under emulated processors: the file built here gives the answers given here.

Builds the container once for every CPU target, runs it natively, then with a cross-compiled mlrun under qemu-user, and
compares labels and scores; then small real models against recorded outputs (tests/golden/models.py). Says
`skipped: REASON` where an emulator, a cross compiler, the libraries or the recorded outputs are missing.
    run.py FOLDER-OF-THE-TOOLS PROCESSOR...      aarch64, aarch64-sve or riscv64
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from test_cache import test_cache
EXAMPLE = HERE.parents[1] / "examples/digits"
PROJECT = HERE.parents[1]
MODELS = ["mnist", "ppocr_cls", "ultraface_rfb_320"]
BUILD_SECONDS = 3600  # of a runtime, on two cores that others use as well
# Options of the emulator, and the variant that is chosen there.
WITH_VECTORS = ["-cpu", "rv64,v=true,vext_spec=v1.0,vlen="]
PROCESSORS = {"aarch64": [(["-cpu", "cortex-a72"], "armv8-a")],
              "aarch64-sve": [(["-cpu", "max,sve-default-vector-length=32"], "armv8-a+sve256"), (["-cpu", "a64fx"], "armv8-a+sve512"),
                              (["-cpu", "max,sve-default-vector-length=256"], "armv8-a"),
                              (["-cpu", "max,sve-default-vector-length=16"], "armv8-a")],
              "riscv64": [(["-cpu", "rv64,v=false"], "rv64gc")] + [([WITH_VECTORS[0], WITH_VECTORS[1] + bits], "rv64gcv") for bits in ("128", "256", "512")]}
TOLERANCE = 1e-3  # of a score, which is a probability


class Failure(Exception):
    pass


def run(command, env, code=0, timeout=600):
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL)
    if done.returncode != code:
        raise Failure(f"{' '.join(map(str, command))}: exit {done.returncode}, expected {code}\n"
                      f"{done.stdout}{done.stderr}")
    return done.stdout


def answers(mlrun, container, env, *options):
    """{image name: [(label, score)]}, the three best classes of every sample image."""
    found = {}
    for image in sorted((EXAMPLE / "images").iterdir()):
        text = run([*mlrun, container, "--input", image, "--top", 3, "--json", *options], env)
        result = json.loads(text)
        outputs = list(result["outputs"].values())
        if len(outputs) != 1 or len(outputs[0]) != 3:
            raise Failure(f"{image.name}: expected one output with three classes, found {text}")
        found[image.name] = [(entry["label"], entry["score"]) for entry in outputs[0]]
    return found


def compare(expected, found, variant):
    worst = 0.0
    for image, classes in expected.items():
        scores = dict(found[image])
        if found[image][0][0] != classes[0][0]:
            raise Failure(f"{variant}, {image}: {found[image][0]}, expected {classes[0]}")
        for label, score in classes:
            # A class may be third here and fourth there, where both are as good as nothing.
            difference = abs(scores.get(label, 0.0) - score)
            worst = max(worst, difference)
            if difference > TOLERANCE:
                raise Failure(f"{variant}, {image}: {found[image]}, expected {classes}")
    print(f"ok    {variant}: {len(expected)} images, max |d| {worst:.1e}")


def architecture(processors):
    return processors.split("-")[0]


def why_not(arch):
    if not shutil.which(f"qemu-{arch}-static"):
        return f"qemu-{arch}-static is not installed"
    if not shutil.which(f"{arch}-linux-gnu-g++"):
        return f"{arch}-linux-gnu-g++ is not installed"
    libraries = subprocess.run([str(HERE / "sysroot.sh"), arch], capture_output=True, text=True)
    if libraries.returncode != 0:
        return f"no libraries for {arch}: " + (libraries.stderr.strip().splitlines() or ["no reason given"])[-1]
    return None


def runs_vectors(arch="riscv64"):
    """qemu 7 ends itself at vector code of RISC-V (its issue 1441: conversions towards zero)."""
    version = subprocess.run([f"qemu-{arch}-static", "--version"], capture_output=True, text=True).stdout.split("version ")[-1]
    return int(version.split(".")[0]) >= 8


def check_models(tools, emulated, variant):
    done = subprocess.run([sys.executable, PROJECT / "tests/golden/models.py", "--bin", tools, "--shared",
                           PROJECT.parent / "shared", "--examples", PROJECT / "examples", "--target", variant,
                           "--mlrun", shlex.join(map(str, emulated)), "--model", *MODELS],
                          capture_output=True, text=True, timeout=1200)
    print(done.stdout + done.stderr, end="")
    if done.returncode != 0:
        raise Failure(f"{variant}: models differ from their recorded outputs")


def check_emulated(processors, tools, container, expected, scratch, env):
    arch = architecture(processors)
    mlrun = scratch / f"mlrun-{arch}"
    run([HERE / "build_mlrun.sh", arch, mlrun], dict(os.environ), timeout=BUILD_SECONDS)
    for options, variant in PROCESSORS[processors]:
        if variant == "rv64gcv" and not runs_vectors():
            print(f"skipped: {options[1]} (qemu-{arch}-static is older than 8)")
            continue
        check_processor([f"qemu-{arch}-static", *options, mlrun], variant, tools, container, expected, env)


def check_processor(emulated, variant, tools, container, expected, env):
    probe = json.loads(run([*emulated, "probe", "--json"], env))
    if not probe["schema"].startswith("mlc.probe/"):
        raise Failure(f"probe: {probe}")
    chosen = json.loads(run([*emulated, "explain", container, "--json"], env))["chosen"]
    if chosen != variant:
        raise Failure(f"{chosen} is chosen, expected {variant}")
    compare(expected, answers(emulated, container, env, "--variant", variant), variant)
    compare(expected, answers(emulated, container, env), f"the variant chosen by {' '.join(map(str, emulated[:-1]))}")
    run([*emulated, "selftest", container], env)
    # A variant for another processor is refused, not tried.
    run([*emulated, container, "--input", next((EXAMPLE / "images").iterdir()), "--variant", "x86-64-v2"], env, code=5)
    check_models(tools, emulated, variant)


def main(bin_dir, processors):
    tools = pathlib.Path(bin_dir).resolve()
    missing = {arch: why_not(architecture(arch)) for arch in processors}
    for reason in filter(None, missing.values()):
        print(f"skipped: {reason}")
    if all(missing.values()):
        return 0
    failed = 0
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="mlc-emulated-"))
    try:
        # The user's key is made by the build and trusted by every mlrun that sees the same folder.
        env = dict(os.environ, XDG_CONFIG_HOME=str(scratch / "config"), XDG_STATE_HOME=str(scratch / "state"), XDG_CACHE_HOME=str(test_cache()))
        container = scratch / "digits.mlc"
        run([tools / "mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", container,
             "--target", "all"], env)
        expected = answers([tools / "mlrun"], container, env)
        for arch in (arch for arch, reason in missing.items() if not reason):
            try:
                check_emulated(arch, tools, container, expected, scratch, env)
            except Failure as failure:
                failed += 1
                print(f"FAIL  {arch}: {failure}")
    except Failure as failure:
        failed += 1
        print(f"FAIL  {failure}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
