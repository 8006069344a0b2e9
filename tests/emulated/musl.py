"""A static mlrun against musl: the file answers as it does by the mlrun of this machine, with nothing else beside it.

Builds the digits container once for every CPU target and runs it by both. Then what is different without glibc and without a dynamic
linker: no library of the machine is loaded, so no device; system calls are those of another C library, also in a confined process;
stacks of threads are as large as the program asks for; a root of files that has nothing but the program and the model is enough.
Says `skipped: REASON` where the compiler or the libraries are missing.
    musl.py FOLDER-OF-THE-TOOLS
"""
import json
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from run import BUILD_SECONDS, EXAMPLE, HERE, Failure, answers, check_models, compare, run, test_cache
from windows import EXIT_BAD_SIGNATURE, EXIT_MALFORMED, EXIT_RESOURCE, expect

ARCH = "x86_64-musl"
COMPILERS = ["clang-19", "ld.lld-19", "llvm-ar-19"]
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_STACK = 1, 2, 3, 0x6474E551
THREAD_STACK = 8 << 20
MOST_BYTES = 12 << 20
IMAGE = sorted((EXAMPLE / "images").iterdir())[0]


def why_not():
    if platform.machine() != "x86_64":
        return f"the program is for x86_64, this is {platform.machine()}"
    missing = [name for name in COMPILERS if not shutil.which(name)]
    if missing:
        return f"{', '.join(missing)} not installed"
    libraries = subprocess.run([str(HERE / "sysroot.sh"), ARCH], capture_output=True, text=True)
    if libraries.returncode != 0:
        return "no libraries against musl: " + (libraries.stderr.strip().splitlines() or ["no reason given"])[-1]
    return None


def segments(path):
    """{type: bytes in memory} of an ELF file's program headers."""
    data = path.read_bytes()
    expect(data[:5] == b"\x7fELF\x02", f"{path} is no ELF file of 64 bits")
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, offset + k * size) for k in range(count)]
    return {header[0]: header[6] for header in headers}


def check_program(mlrun):
    """No dynamic linker, at another address in each process, stacks as large as glibc's."""
    found = segments(mlrun)
    expect(PT_INTERP not in found, "the program names a dynamic linker")
    expect(PT_DYNAMIC in found, "the program has one address in all processes")
    expect(found.get(PT_STACK) == THREAD_STACK, f"stacks of threads: {found.get(PT_STACK)}, {THREAD_STACK} expected")
    size = mlrun.stat().st_size
    expect(size < MOST_BYTES, f"{size} bytes, less than {MOST_BYTES} expected")
    print(f"ok    one static file of {size} bytes")


def check_probe(mlrun, host, env):
    mine, theirs = (json.loads(run([program, "probe", "--json", "--devices", "cpu"], env)) for program in (mlrun, host))
    for probe in (mine, theirs):
        del probe["cpu"]["raw"]  # holds which core has answered
    for field in ("os", "cpu", "code_pages", "features", "isolation", "topology"):
        expect(mine.get(field) == theirs.get(field), f"probe: {field} is {mine.get(field)}, by glibc {theirs.get(field)}")
    said = subprocess.run([mlrun, "probe"], env=env, capture_output=True, text=True, timeout=120)
    expect(said.returncode == 0 and "linked statically and loads no libraries" in said.stdout, f"probe of devices: {said}")
    print("ok    probe: what glibc's says, and that devices need a program that is not static")


def check_answers(mlrun, host, container, expected, env):
    chosen = [json.loads(run([program, "explain", container, "--json"], env))["chosen"] for program in (mlrun, host)]
    expect(chosen[0] == chosen[1], f"{chosen[0]} is chosen, by glibc {chosen[1]}")
    compare(expected, answers([mlrun], container, env), f"{chosen[0]}, chosen")
    for options in (["--variant", "x86-64-v2"], ["--variant", "portable"], ["--threads", "1"], ["--isolated"]):
        compare(expected, answers([mlrun], container, env, *options), " ".join(options))
    run([mlrun, "selftest", container], env)
    done = subprocess.run([mlrun, container, "--input", IMAGE, "--devices", "gpu0"], env=env, capture_output=True, text=True, timeout=120)
    expect(done.returncode == 0 and "runs on the processor" in done.stderr, f"--devices gpu0, in a program that loads no drivers: {done}")
    lines = run([mlrun, container, "--input", EXAMPLE / "images", "--json-lines"], env).splitlines()
    expect(len(lines) == len(expected) and all(json.loads(line)["ok"] for line in lines), f"a folder: {lines}")
    print("ok    golden vectors, a folder of pictures")


def check_stacks(mlrun, container, env):
    """musl gives a thread 128 KiB if the program says nothing: its stacks are seen in the map of the memory of a process that works."""
    process = subprocess.Popen([mlrun, "bench", container, "--sessions", "2", "--threads", "1", "--warmup", "0s", "--duration", "60s"], env=env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    proc = pathlib.Path("/proc") / str(process.pid)
    sizes, tasks = [], 0
    try:
        for _ in range(200):  # until its second session has begun
            time.sleep(0.05)
            expect(process.poll() is None, f"mlrun bench ended with {process.returncode}")
            ranges = [line.split() for line in (proc / "maps").read_text().splitlines()]
            ends = [[int(end, 16) for end in words[0].split("-")] for words in ranges if words[1] == "rw-p" and len(words) == 5]
            sizes = [end - begin for begin, end in ends]
            tasks = len(list((proc / "task").iterdir()))
            stacks = sum(THREAD_STACK <= size < THREAD_STACK + (64 << 10) for size in sizes)
            if tasks > 1 and stacks >= tasks - 1:
                print(f"ok    stacks ({stacks}) of {THREAD_STACK >> 20} MiB for {tasks} threads, of which one has the process's")
                return
        raise Failure(f"{tasks} threads, and no stacks of {THREAD_STACK} bytes in memory of {sizes}")
    finally:
        process.kill()
        process.wait()


def check_isolated(mlrun, host, container, expected, scratch, env):
    """A file of a signer whom this home does not know runs in a process without privileges, with the filter of system calls that the kernel has."""
    stranger = dict(env, XDG_CONFIG_HOME=str(scratch / "stranger"))
    said = []
    for program in (mlrun, host):
        done = subprocess.run([program, container, "--input", IMAGE, "--json"], env=stranger, capture_output=True, text=True, timeout=120)
        answer = json.loads(done.stdout)
        expect(done.returncode == 0 and answer["isolated"] and answer["variant"] == "portable", f"an unknown signer: {done}")
        said.append("system calls are not filtered" in done.stderr)
    expect(said[0] == said[1], f"system calls are {'not ' if said[0] else ''}filtered, by glibc {'not ' if said[1] else ''}filtered")
    compare(expected, answers([mlrun], container, stranger), "isolated")
    compare(expected, answers([mlrun], container, stranger, "--threads", "2"), "isolated, two threads")
    # What has no memory ends with a sentence there too.
    done = subprocess.run([mlrun, container, "--input", IMAGE, "--memory-limit", "1K"], env=stranger, capture_output=True, text=True, timeout=120)
    expect(done.returncode == EXIT_RESOURCE and "error" in done.stderr, f"1 KiB of memory: {done}")
    print(f"ok    isolated, {'without a filter, as by glibc' if said[0] else 'system calls filtered'}")


def check_hostile(mlrun, container, scratch, env):
    whole = container.read_bytes()
    bad = scratch / "bad.mlc"
    changes = [(f"byte {at} changed", whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:], (EXIT_MALFORMED, EXIT_BAD_SIGNATURE))
               for at in (0, 5, len(whole) // 3, len(whole) // 2, len(whole) - 100)]
    changes += [(f"{length} bytes", whole[:length], (EXIT_MALFORMED, EXIT_RESOURCE)) for length in (0, 1, 100, len(whole) // 2)]
    for what, data, codes in changes:
        bad.write_bytes(data)
        done = subprocess.run([mlrun, bad, "--input", IMAGE, "--verify", "full"], env=env, capture_output=True, timeout=120)
        expect(done.returncode in codes and b"error" in done.stderr and not done.stdout, f"{what}: exit {done.returncode}: {done.stderr}")
    print(f"ok    {len(changes)} files that are not what they were are refused")


def check_empty_root(tools, mlrun, container, key, expected, scratch, env):
    """Nothing but the program, the model, a key and a picture; and the program and the model as one file."""
    if os.geteuid() != 0 or not shutil.which("chroot"):
        print("skipped: an empty root of files (only root may change it)")
        return
    root = scratch / "root"
    root.mkdir()
    run([tools / "mlpack", "executable", container, "-o", root / "digits", "--runner", mlrun], env)
    for source, name in ((mlrun, "mlrun"), (container, "digits.mlc"), (key, "key.pem"), (IMAGE, "image")):
        shutil.copy(source, root / name)
    best = expected[IMAGE.name][0][0]
    for words in (["/mlrun", "/digits.mlc"], ["/digits"]):
        text = run([shutil.which("chroot"), root, *words, "--input", "/image", "--trust", "/key.pem", "--json"], {"PATH": "/nowhere"})
        answer = json.loads(text)
        expect(list(answer["outputs"].values())[0][0]["label"] == best, f"{words} in an empty root: {text}")
        expect(answer["native_allowed"] and answer["variant"] != "portable", f"{words} in an empty root: {text}")
    print("ok    a root of files with nothing but the program and the model")


def check_musl(tools, scratch, env):
    mlrun, host = scratch / "mlrun-musl", tools / "mlrun"
    run([HERE / "build_mlrun.sh", ARCH, mlrun], dict(os.environ), timeout=BUILD_SECONDS)
    container = scratch / "digits.mlc"
    run([tools / "mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", container, "--target", "all"], env)
    key = next((scratch / "config/mlc/trust").glob("*.pem"))
    expected = answers([host], container, env)
    check_program(mlrun)
    check_probe(mlrun, host, env)
    check_answers(mlrun, host, container, expected, env)
    check_stacks(mlrun, container, env)
    check_isolated(mlrun, host, container, expected, scratch, env)
    check_hostile(mlrun, container, scratch, env)
    check_empty_root(tools, mlrun, container, key, expected, scratch, env)
    check_models(tools, [mlrun], "x86-64-v3")


def main(bin_dir):
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return 0
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="mlc-musl-"))
    try:
        env = dict(os.environ, XDG_CONFIG_HOME=str(scratch / "config"), XDG_STATE_HOME=str(scratch / "state"), XDG_CACHE_HOME=str(test_cache()))
        check_musl(pathlib.Path(bin_dir).resolve(), scratch, env)
    except Failure as failure:
        print(f"FAIL  {failure}")
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
