"""What the runtime needs of a machine: libraries that distributions name alike, and nothing else before a file asks for it."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

BUILD = pathlib.Path(sys.argv[1]).resolve()
READELF = sys.argv[2]
EVERYWHERE = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
              "ld-linux-riscv64-lp64d.so.1"}
READER = EVERYWHERE | {"libcrypto.so.3", "libzstd.so.1"}  # of containers
MAY_NEED = {"bin/mlrun": READER, "lib/libmlrt.so": READER, "lib/libmlrt-gpu.so": READER, "lib/libmlio.so": EVERYWHERE}


class Skipped(Exception):
    pass


def libraries_are_those_that_every_distribution_has():
    without = re.findall(r"^(MLC_\w+_ARCHIVE):\S+=\S*NOTFOUND$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    if without:
        raise Skipped(f"this machine has no archives of codecs to link: {' '.join(without)}")
    for name, allowed in MAY_NEED.items():
        text = subprocess.run([READELF, "-dW", str(BUILD / name)], check=True, capture_output=True, text=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
        assert "libc.so.6" in needed and needed <= allowed, (name, needed - allowed)


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress((b"\0" + bytes(width)) * height)) + chunk(b"IEND", b""))


def tiff(width, height):
    tags = [(256, width), (257, height), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, height), (279, width * height)]
    pixels = bytes(width * height) + bytes(-width * height % 2)
    return (struct.pack("<2sHI", b"II", 42, 8 + len(pixels)) + pixels + struct.pack("<H", len(tags))
            + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags) + struct.pack("<I", 0))


def library_of_this_machine(file):
    """Where the loader finds it."""
    name = file[:file.index(".so")]
    code = f"import ctypes; ctypes.CDLL('{file}'); print(next(l.split()[-1] for l in open('/proc/self/maps') if '{name}.so' in l))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip()


def without(library, *command):
    """Runs `command` where `library` is an empty file: in a mount namespace of its own."""
    script = 'mount --bind /dev/null "$0" && exec "$@"'
    user = [] if os.getuid() == 0 else ["-r"]
    probe = subprocess.run(["unshare", *user, "-m", "sh", "-c", script, library, "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        raise Skipped(f"no mount namespace here: {probe.stderr.strip()}")
    return subprocess.run(["unshare", *user, "-m", "sh", "-c", script, library, *map(str, command)], capture_output=True, text=True, timeout=120)


def a_machine_without_libtiff_runs_all_else():
    """Also where the file is a stranger's, so that its pictures are decoded in a process that can open no library."""
    library = library_of_this_machine("libtiff.so.6")
    if not library or not shutil.which("unshare"):
        raise Skipped("no libtiff.so.6 here, or no unshare")
    with tempfile.TemporaryDirectory(prefix="mlc-needs-") as name:
        folder = pathlib.Path(name)
        digits = BUILD.parents[1] / "examples/digits"
        os.environ.update({f"XDG_{part}_HOME": str(folder / part) for part in ("CONFIG", "STATE", "CACHE")})
        (folder / "pipeline.json").write_text((digits / "pipeline.json").read_text().replace('"image/png"', '"image/png", "image/tiff"'))
        shutil.copy(digits / "labels.txt", folder)
        for file, flags in (("own.mlc", ()), ("stranger.mlc", ("--no-sign",))):
            subprocess.run([str(BUILD / "bin/mlpack"), "build", digits / "digits.onnx", "-o", folder / file, "--target", "portable", "--pipeline",
                            folder / "pipeline.json", *flags], check=True, capture_output=True, text=True, timeout=300)
        (folder / "x.png").write_bytes(png(28, 28))
        (folder / "x.tiff").write_bytes(tiff(28, 28))
        for file in ("own.mlc", "stranger.mlc"):
            for picture in ("x.png", "x.tiff"):
                command = (BUILD / "bin/mlrun", folder / file, "-i", folder / picture)
                there = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
                assert there.returncode == 0, there
                here = without(library, *command)
                if picture == "x.png":
                    assert here.returncode == 0 and here.stdout == there.stdout, here
                else:
                    assert here.returncode == 20 and "this machine has no libtiff.so.6; PNG" in here.stderr and "libtiff6" in here.stderr, here


def a_machine_without_libsndfile_reads_wav():
    """Likewise."""
    library = library_of_this_machine("libsndfile.so.1")
    if not library or not shutil.which("unshare"):
        raise Skipped("no libsndfile.so.1 here, or no unshare")
    steps = [{"op": "decode_audio", "in": "speech", "channels": "first", "rate": 16000}, {"op": "fit", "samples": 784},
             {"op": "frame", "length": 28, "hop": 28, "center": "none", "last": "drop"}, {"op": "new_axis", "at": 0}, {"op": "new_axis", "at": 0, "out": "x"},
             {"op": "run", "program": "main", "in": {"image": "x"}, "out": {"logits": "y"}}]
    text = {"mlc_pipeline": 1, "inputs": {"speech": {"accept": ["audio/wav", "audio/flac"]}}, "steps": steps, "outputs": ["y"]}
    with tempfile.TemporaryDirectory(prefix="mlc-needs-") as name:
        folder, source = pathlib.Path(name), BUILD.parents[1]
        os.environ.update({f"XDG_{part}_HOME": str(folder / part) for part in ("CONFIG", "STATE", "CACHE")})
        (folder / "pipeline.json").write_text(json.dumps(text))
        for file, flags in (("own.mlc", ()), ("stranger.mlc", ("--no-sign",))):
            subprocess.run([str(BUILD / "bin/mlpack"), "build", source / "examples/digits/digits.onnx", "-o", folder / file, "--target", "portable",
                            "--pipeline", folder / "pipeline.json", *flags], check=True, capture_output=True, text=True, timeout=300)
            for sound in ("pcm16.wav", "mono16.flac"):
                command = (BUILD / "bin/mlrun", folder / file, "-i", source / "tests/unit/io/data" / sound)
                there = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
                assert there.returncode == 0, there
                here = without(library, *command)
                if sound == "pcm16.wav":
                    assert here.returncode == 0 and here.stdout == there.stdout, here
                else:
                    assert here.returncode == 20 and "this machine has no libsndfile.so.1; WAV works without" in here.stderr and "libsndfile1" in here.stderr, here


TESTS = (libraries_are_those_that_every_distribution_has, a_machine_without_libtiff_runs_all_else, a_machine_without_libsndfile_reads_wav)
failed = skipped = 0
for test in TESTS:
    try:
        test()
        print(f"ok    {test.__name__}")
    except Skipped as why:
        skipped += 1
        print(f"skip  {test.__name__}: {why}")
    except Exception as error:
        failed += 1
        print(f"FAIL  {test.__name__}: {error!r}")
print(f"[doctest] test cases: {len(TESTS)} | {len(TESTS) - failed - skipped} passed | {failed} failed | {skipped} skipped")
sys.exit(min(failed, 1))
