"""mlrun.exe and mlrt.dll under Wine: the file built on Linux gives the answers given on Linux.

Builds the digits container once for every CPU target, runs it natively, then with the mlrun that mingw-w64 compiled. Then what is
different on Windows: keys in the user's profile, no process without privileges for files that nobody signed, long paths and
those in letters of no code page, output that is bytes. At the end a C program that links mlrt.dll.
Says `skipped: REASON` where Wine, the compiler or the libraries are missing.
    windows.py FOLDER-OF-THE-TOOLS
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from run import BUILD_SECONDS, EXAMPLE, HERE, PROJECT, Failure, answers, compare, run, test_cache

COMPILER = "x86_64-w64-mingw32-gcc-posix"
WINES = ["wine64", "/usr/lib/wine/wine64", "wine"]  # Debian's package of the first has no link in the path
STRANGE = "Zahlen ünd 数字"
EXIT_MALFORMED, EXIT_RESOURCE, EXIT_BAD_SIGNATURE = 4, 7, 12


def wine():
    return next((found for found in map(shutil.which, WINES) if found), None)


def why_not():
    if not wine():
        return "wine64 is not installed"
    if not shutil.which(COMPILER):
        return f"{COMPILER} is not installed"
    libraries = subprocess.run([str(HERE / "sysroot.sh"), "windows"], capture_output=True, text=True)
    if libraries.returncode != 0:
        return "no libraries for windows: " + (libraries.stderr.strip().splitlines() or ["no reason given"])[-1]
    return None


def windows_name(path):
    """Of a file of this machine: Wine shows all of it as drive Z."""
    return "Z:" + str(path).replace("/", "\\")


class Wine:
    """A Windows of its own, with a user's profile in which nothing is yet."""

    def __init__(self, scratch, env):
        self.prefix = scratch / "wine"
        self.env = dict(env, WINEPREFIX=str(self.prefix), WINEDEBUG="-all", LC_ALL="C.UTF-8",
                        WINEDLLOVERRIDES="mscoree=;mshtml=;winemenubuilder.exe=")
        self.mlrun = scratch / "mlrun.exe"

    def done(self, *words, cwd=None):
        return subprocess.run([wine(), *map(str, words)], env=self.env, capture_output=True, timeout=600, stdin=subprocess.DEVNULL, cwd=cwd)

    def run(self, *words, code=0, cwd=None):
        """What mlrun.exe printed, and what it said beside that."""
        done = self.done(self.mlrun, *words, cwd=cwd)
        if done.returncode != code:
            raise Failure(f"mlrun.exe {' '.join(map(str, words))}: exit {done.returncode}, expected {code}\n"
                          f"{done.stdout.decode(errors='replace')}{done.stderr.decode(errors='replace')}")
        return done.stdout.decode(), done.stderr.decode()

    def in_profile(self, below):
        return list((self.prefix / "drive_c/users").glob(f"*/AppData/{below}"))

    def close(self):
        subprocess.run([wine(), "wineboot", "--kill"], env=self.env, capture_output=True, timeout=60)


def expect(condition, what):
    if not condition:
        raise Failure(what)


def check_probe(windows):
    probe = json.loads(windows.run("probe", "--json", "--devices", "cpu")[0])
    here = len(os.sched_getaffinity(0))
    expect(probe["os"]["release"].startswith("Windows "), f"probe: {probe['os']}")
    expect(probe["code_pages"] == "S1", f"probe: executable memory {probe['code_pages']}")
    expect(len(probe["topology"]["allowed_cpus"]) == here, f"probe: {probe['topology']}, {here} CPUs expected")
    expect(probe["memory"]["total_bytes"] > 0 and probe["isolation"], f"probe: {probe['memory']}, {probe.get('isolation')}")
    text = windows.run("probe", "--devices", "cpu")[0]
    expect("on Windows there is no process without privileges" in text, f"probe says nothing of isolation: {text}")
    expect("\r" not in text, "probe: lines end as on no other system")
    print("ok    probe: Windows, S1, no process without privileges")


def check_untrusted(windows, container, image):
    """A file of a signer whom this profile does not know, before its key is trusted."""
    _, said = windows.run(windows_name(container), "--input", windows_name(image), code=EXIT_RESOURCE)
    expect("error[E6013]" in said and "no trusted key has signed it" in said, f"an unknown signer: {said}")
    windows.run(windows_name(container), "--input", windows_name(image), "--isolated", code=EXIT_RESOURCE)
    answer = json.loads(windows.run(windows_name(container), "--input", windows_name(image), "--json", "--allow-unsigned")[0])
    expect(answer["isolated"] is False, f"--allow-unsigned: {answer}")
    print("ok    a file of an unknown signer is refused, and runs with --allow-unsigned")


def check_trust(windows, container, signer):
    trusted = json.loads(windows.run("trust", windows_name(container), "--id", signer, "--json")[0])
    found = windows.in_profile("Roaming/mlc/trust/*.pem")
    expect(len(found) == 1 and trusted["path"].endswith(f"AppData/Roaming/mlc/trust/{found[0].name}"), f"trust: {trusted}, in the profile: {found}")
    listed = json.loads(windows.run("trust", "--list", "--json")[0])
    expect([key["key_id"] for key in listed["keys"]] == [trusted["key_id"]], f"trust --list: {listed}")
    print("ok    the key lies in the user's profile")


def check_answers(windows, container, expected):
    """Answers of the variant that is chosen, of the oldest processors' and of the portable form."""
    mlrun = [wine(), windows.mlrun]
    name = windows_name(container)
    chosen = answers(mlrun, name, windows.env)
    compare(expected, chosen, "the variant chosen on Windows")
    for variant in ("x86-64-v2", "portable"):
        compare(expected, answers(mlrun, name, windows.env, "--variant", variant), f"{variant} on Windows")
    compare(expected, answers(mlrun, name, windows.env, "--threads", 1), "one thread on Windows")
    windows.run("selftest", name)
    windows.run("selftest", name, "--variant", "x86-64-v2")
    # What was seen of the file is remembered, in the part of the profile that stays on this machine.
    expect(windows.in_profile("Local/mlc/state/*"), "no version is remembered in the profile")
    print("ok    golden vectors")


def check_paths(windows, container, image, expected):
    folder = container.parent / STRANGE
    for _ in range(12):  # beyond 260 characters, and 260 UTF-16 units
        folder = folder / ("数字" * 14)
    folder.mkdir(parents=True)
    shutil.copy(container, folder / "zwölf.mlc")
    shutil.copy(image, folder / "六.png")
    best = expected[image.name][0][0]

    def label_of(*words, cwd=None):
        return list(json.loads(windows.run(*words, "--json", cwd=cwd)[0])["outputs"].values())[0][0]["label"]

    expect(label_of(windows_name(folder / "zwölf.mlc"), "--input", windows_name(folder / "六.png")) == best, "a long path")
    # / as on other systems, and relative to the current folder.
    expect(label_of(f"{STRANGE}/{folder.relative_to(container.parent / STRANGE)}/zwölf.mlc", "--input", windows_name(image), cwd=container.parent) == best, "a relative path")
    lines = [json.loads(line) for line in windows.run(windows_name(folder / "zwölf.mlc"), "--json-lines", "--input", windows_name(folder.parent))[0].splitlines()]
    named = {line["file"].rsplit("/", 1)[-1].rsplit("\\", 1)[-1]: line["outputs"] for line in lines}
    expect(list(named) == ["六.png"] and list(named["六.png"].values())[0][0]["label"] == best, f"a folder: {lines}")
    print("ok    paths of more than 260 characters, in letters of no code page")


def check_hostile(windows, container, image, scratch):
    whole = container.read_bytes()
    bad = scratch / "bad.mlc"
    name = windows_name(bad)
    flipped = 0
    for at in (0, 5, len(whole) // 3, len(whole) // 2, len(whole) - 100):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        bad.write_bytes(changed)
        done = windows.done(windows.mlrun, name, "--input", windows_name(image), "--verify", "full")
        expect(done.returncode in (EXIT_MALFORMED, EXIT_BAD_SIGNATURE) and b"error" in done.stderr and not done.stdout, f"byte {at} changed: exit {done.returncode}: {done.stderr}")
        flipped += 1
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        bad.write_bytes(whole[:length])
        done = windows.done(windows.mlrun, name, "--input", windows_name(image))
        # Without the block of signatures at its end it may be one that nobody signed.
        expect(done.returncode in (EXIT_MALFORMED, EXIT_RESOURCE) and b"error" in done.stderr and not done.stdout, f"{length} bytes of the file: exit {done.returncode}: {done.stderr}")
    windows.run(windows_name(scratch), "--input", windows_name(image), code=3)
    windows.run("NUL", "--input", windows_name(image), code=3)
    windows.run(windows_name(scratch / "missing.mlc"), code=3)
    print(f"ok    {flipped} changed bits, 5 shorter files, a folder, a device and nothing are refused")


def check_library(windows, container, key, scratch):
    """A C program of the examples, linked with the import library; mlrt.dll beside it."""
    build = PROJECT / "build/emulated/windows"
    run(["cmake", "--build", build, "--target", "mlrt_shared"], dict(os.environ), timeout=BUILD_SECONDS)
    headers = scratch / "include/mlrt"
    headers.mkdir(parents=True)
    shutil.copy(PROJECT / "runtime/api/mlc.h", headers)
    program = scratch / "digit.exe"
    run([COMPILER, "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{headers.parent}", PROJECT / "examples/c/digit.c", build / "lib/libmlrt.dll.a", "-o", program], dict(os.environ))
    shutil.copy(build / "bin/mlrt.dll", scratch)
    done = windows.done(program, windows_name(container), windows_name(PROJECT / "examples/c/seven.pgm"), windows_name(key))
    expect(done.returncode == 0 and done.stdout.split() == [b"7"] and b"x86-64" in done.stderr, f"digit.exe: exit {done.returncode}: {done.stdout}{done.stderr}")
    print("ok    a C program with mlrt.dll")


def check_windows(container, key, signer, expected, scratch, env):
    windows = Wine(scratch, env)
    run([HERE / "build_mlrun.sh", "windows", windows.mlrun], dict(os.environ), timeout=BUILD_SECONDS)
    image = sorted((EXAMPLE / "images").iterdir())[0]
    try:
        check_probe(windows)
        check_untrusted(windows, container, image)
        check_trust(windows, container, signer)
        check_answers(windows, container, expected)
        check_paths(windows, container, image, expected)
        check_hostile(windows, container, image, scratch)
        check_library(windows, container, key, scratch)
    finally:
        windows.close()


def main(bin_dir):
    tools = pathlib.Path(bin_dir).resolve()
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return 0
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="mlc-windows-"))
    try:
        env = dict(os.environ, XDG_CONFIG_HOME=str(scratch / "config"), XDG_STATE_HOME=str(scratch / "state"),
                   XDG_CACHE_HOME=str(test_cache()))
        container = scratch / "digits.mlc"
        run([tools / "mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", container, "--target", "all"], env)
        key = next((scratch / "config/mlc/trust").glob("*.pem"))
        listed = json.loads(run([tools / "mlrun", "trust", "--list", "--json"], env))
        check_windows(container, key, listed["keys"][0]["key_id"], answers([tools / "mlrun"], container, env), scratch, env)
    except Failure as failure:
        print(f"FAIL  {failure}")
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
