"""mlpack executable: mlrun and a container in one file, on machines where nothing is installed too."""
import json
import os
import pathlib
import shutil
import struct
import subprocess

from mlrun_test import EXAMPLE, IMAGES, ask, container
from tool_test import Skipped, main

TRAILER = 24
ELF_MACHINE = 18


def executable(t, source="digits.mlc", name="digits"):
    """The digits example as a file that runs by itself, in the test's folder."""
    container(t)
    t.made = t.json("mlpack", "executable", source, "-o", name)
    return t.dir / name


def alone(t, path, *args, code=0, env=None, prefix=()):
    done = subprocess.run([*prefix, str(path), *map(str, args)], cwd=t.dir, env=t.env if env is None else env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), f"{args}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done


def it_answers_as_mlrun_does(t):
    path = executable(t)
    expected = ask(t, "digits.mlc", "--input", IMAGES[0])
    found = json.loads(alone(t, path, "--input", IMAGES[0], "--json").stdout)
    for field in ("outputs", "root", "variant", "trust", "native_allowed", "isolated"):
        assert found[field] == expected[field], (field, found, expected)
    for words in ((IMAGES[0],), ("run", IMAGES[0]), ("-i", f"picture={IMAGES[0]}")):
        assert alone(t, path, *words).stdout == t.run("mlrun", "digits.mlc", "-i", IMAGES[0]).stdout, words
    assert "native" not in alone(t, path, "-i", IMAGES[0]).stderr
    lines = alone(t, path, "-i", EXAMPLE / "images", "--json-lines").stdout.splitlines()
    assert len(lines) == len(IMAGES) and all(json.loads(line)["ok"] for line in lines), lines
    assert "missing" in alone(t, path, code=6).stderr
    assert "ok" in alone(t, path, "selftest").stdout and "chosen" in alone(t, path, "explain").stdout
    assert json.loads(alone(t, path, "bench", "--duration", "20ms", "--warmup", "0s", "--json").stdout)["ok"]
    assert "run " in alone(t, path, "profile", "--duration", "20ms", "--warmup", "0s").stdout
    assert "'build' is a command of mlpack" in alone(t, path, "build", code=2).stderr
    # The model is that of the file: another one that is named is an input.
    assert "picture   found a file of unknown kind" in alone(t, path, "bare.mlc", code=6).stderr


def it_says_what_it_is(t):
    path = executable(t)
    said = alone(t, path, "--help").stdout
    for text in ("digits --input cat.jpg", "Usage: digits run", "Model: local/digits, version 1", "input     picture", "digits help", "--top"):
        assert text in said, (text, said)
    assert "cat.mlc" not in said and "container (.mlc)" not in said, said
    assert alone(t, path, "--version").stdout.startswith("digits (mlrun "), "version"
    bare = executable(t, "bare.mlc", "bare")
    assert "input     image   f32[" in alone(t, bare, "--help").stdout, alone(t, bare, "--help").stdout
    words = alone(t, path, "__complete", "--variant", "").stdout.split()
    assert "portable" in words and len(words) == 3, words
    assert "picture=" in alone(t, path, "__complete", "run", "-i", "").stdout.split()


def the_layout_is_that_of_the_page(t):
    path = executable(t)
    data, stored = path.read_bytes(), (t.dir / "digits.mlc").read_bytes()
    magic, offset, length = struct.unpack("<8sQQ", data[-TRAILER:])
    runner = (t.bin / "mlrun-alone").read_bytes()
    assert magic == b"MLCEXEC1" and offset % 65536 == 0 and offset + length + TRAILER == len(data), (magic, offset, length)
    assert data[:len(runner)] == runner and not any(data[len(runner):offset]) and data[offset:offset + length] == stored
    assert (t.made["offset"], t.made["container_bytes"], t.made["runner_bytes"], t.made["bytes"]) == (offset, length, len(runner), len(data)), t.made
    assert path.stat().st_mode & 0o777 == 0o755, oct(path.stat().st_mode)


def the_container_comes_out_again(t):
    path = executable(t)
    taken = t.json("mlpack", "extract", path, "-o", "again.mlc")
    assert (t.dir / "again.mlc").read_bytes() == (t.dir / "digits.mlc").read_bytes() and taken["bytes"] == t.made["container_bytes"], taken
    assert "is a container" in t.json("mlpack", "extract", "digits.mlc", "-o", "b.mlc", code=2)["message"]
    t.run("mlpack", "extract", path, "--what", "pipeline", "-o", "parts")
    assert (t.dir / "parts/assets/pipeline.json").exists()
    # Whoever has mlrun and mlpack uses them on the file as on the container.
    assert ask(t, path, "-i", IMAGES[0])["root"] == t.made["root"]
    for command in (("verify", "--deep"), ("inspect",), ("size",)):
        assert t.json("mlpack", command[0], path, *command[1:])["root"] == t.made["root"], command
    assert t.run("mlpack", "diff", path, "digits.mlc").stdout.startswith("equal")
    # Commands that change a container do not write over an executable, and take its container where they write elsewhere.
    before = path.read_bytes()
    t.run("mlpack", "keygen", "-o", "k.pem")
    for words in (("sign", path, "--key", "k.pem"), ("thin", path, "--keep", "portable")):
        assert "exists and is no container" in t.json("mlpack", *words, code=2)["message"]
    assert path.read_bytes() == before
    t.run("mlpack", "thin", path, "--keep", "portable", "-o", "thin.mlc")
    assert ask(t, "thin.mlc", "-i", IMAGES[0])["variant"] == "portable"
    # An executable of an executable holds the container once.
    t.run("mlpack", "executable", path, "-o", "second")
    assert (t.dir / "second").read_bytes() == before


def a_build_writes_it_too(t):
    done = t.json("mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", "d.mlc", "--target", "portable", "--executable", "d", stderr=None)
    assert done["executable"]["root"] == done["root"] and done["executable"]["file"] == "d", done
    assert json.loads(alone(t, t.dir / "d", IMAGES[0], "--json").stdout)["root"] == done["root"]
    t.run("mlpack", "build", EXAMPLE / "digits.onnx", "-o", "d.mlc", "--target", "portable", "--executable", "d")  # replaces what is one
    (t.dir / "notes.txt").write_text("precious")
    refused = t.json("mlpack", "build", EXAMPLE / "digits.onnx", "-o", "e.mlc", "--target", "portable", "--executable", "notes.txt", code=2)
    assert "no container" in refused["message"] and not (t.dir / "e.mlc").exists() and (t.dir / "notes.txt").read_text() == "precious", refused
    assert "--executable" in t.json("mlpack", "build", EXAMPLE / "digits.onnx", "-o", "e.mlc", "--runner", "x", code=2)["message"]


def runners_are_programs_that_find_a_container(t):
    path = executable(t)
    shutil.copy(t.bin / "mlrun", t.dir / "other")  # needs its libraries, and is one all the same
    assert t.json("mlpack", "executable", "digits.mlc", "-o", "o", "--runner", "other")["machine"] == t.made["machine"]
    assert json.loads(alone(t, t.dir / "o", IMAGES[0], "--json").stdout)["root"] == t.made["root"]
    foreign = bytearray((t.dir / "other").read_bytes())
    foreign[ELF_MACHINE:ELF_MACHINE + 2] = struct.pack("<H", 183)
    (t.dir / "foreign").write_bytes(foreign)
    assert t.json("mlpack", "executable", "digits.mlc", "-o", "f", "--runner", "foreign")["machine"] == "aarch64"
    for runner, text, code in ((path, "has a container already", 2), ("/bin/true", "is no mlrun", 2), ("digits.mlc", "is no mlrun", 2), ("nowhere", "is no file", 3)):
        assert text in t.json("mlpack", "executable", "digits.mlc", "-o", "x", "--runner", runner, code=code)["message"], runner
    assert t.json("mlpack", "executable", "nowhere.mlc", "-o", "x", code=3) and not (t.dir / "x").exists()


def damage_is_refused(t):
    path = executable(t)
    good = path.read_bytes()
    offset, length = t.made["offset"], t.made["container_bytes"]
    broken = t.dir / "broken"

    def run(data, code):
        broken.write_bytes(data)
        broken.chmod(0o755)
        return alone(t, broken, IMAGES[0], code=code).stderr

    for at in (0, 20, 70, 4096, 8192 + 100, length // 2, length - 60, length - 1):  # header page, table, manifest, segments, signature block
        changed = bytearray(good)
        changed[offset + at] ^= 0x11
        assert run(changed, (4, 12)).startswith("error"), at
    for said in ((offset, length - 1), (offset + 65536, length), (0, offset + length), (2**64 - 65536, length), (offset, 2**64 - 1)):
        told = run(good[:-TRAILER] + struct.pack("<8sQQ", b"MLCEXEC1", *said), 4)
        assert "E1102" in told and "its trailer names" in told, told
        assert "E1102" in t.run("mlpack", "inspect", "broken", code=4).stderr
    for cut in (1, TRAILER, TRAILER + 1, length // 2, length):
        told = run(good[:-cut], 4)
        assert "E1101" in told and "is truncated" in told, (cut, told)
        assert "is an ELF executable" in t.run("mlpack", "inspect", "broken", code=4).stderr


def trust_is_as_ever(t):
    path = executable(t)
    t.new_home()
    answer = json.loads(alone(t, path, IMAGES[0], "--json").stdout)
    assert answer["isolated"] and answer["variant"] == "portable" and not answer["native_allowed"], answer
    told = alone(t, path, IMAGES[0]).stderr
    assert "isolated" in told and "portable form only" in told, told
    # What it says to do about that needs no other program.
    hint = told.split("help: ")[1].strip()
    assert hint.startswith(f"{path} trust {path} --id "), hint
    assert hint in alone(t, path, "explain").stdout
    subprocess.run(["sh", "-c", hint], env=t.env, check=True, capture_output=True, timeout=120)
    assert json.loads(alone(t, path, IMAGES[0], "--json").stdout)["native_allowed"]
    t.new_home()
    assert "Model: local/digits" in alone(t, path, "--help").stdout
    assert json.loads(alone(t, path, IMAGES[0], "--json", "--isolated").stdout)["isolated"]
    (t.dir / "strict.json").write_text(json.dumps({"keys": [], "rules": [{"models": ["local/*"], "level": "strict"}]}))
    assert "E3002" in alone(t, path, IMAGES[0], "--policy", "strict.json", code=11).stderr


def a_file_that_it_may_not_read_is_told(t):
    path = executable(t)
    if os.geteuid() != 0:
        raise Skipped("only root may start a program as another user")
    t.dir.chmod(0o755)
    path.chmod(0o711)
    done = subprocess.run([str(path), "-i", "random"], env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, user=65534, group=65534, extra_groups=[])
    assert done.returncode == 3 and "cannot read its own file" in done.stderr, done


def files_replaced_while_they_run_are_of_no_matter(t):
    """The open file is what is read, not what has its name by then."""
    path = executable(t)
    other = executable(t, "bare.mlc", "bare")
    link = t.dir / "link"
    link.symlink_to(path)
    assert json.loads(alone(t, link, IMAGES[0], "--json").stdout)["ok"]
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.replace(other, path)
        done = subprocess.run([f"/proc/self/fd/{descriptor}", str(IMAGES[0]), "--json"], cwd=t.dir, env=t.env, capture_output=True, text=True, timeout=120, pass_fds=[descriptor], stdin=subprocess.DEVNULL)
    finally:
        os.close(descriptor)
    assert done.returncode == 0 and json.loads(done.stdout)["outputs"]["digits"], done


def a_machine_with_nothing_but_the_c_library(t):
    """A folder with the executable, a picture, and the C library, as the root of all files."""
    path = executable(t)
    if os.geteuid() != 0 or shutil.which("chroot") is None:
        raise Skipped("only root may change the root of files")
    needed = [line.split("=>")[-1].split("(")[0].strip() for line in subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout.splitlines() if "vdso" not in line]
    names = {pathlib.Path(file).name.split(".so")[0] for file in needed}
    assert names <= {"libc", "libm", "libdl", "librt", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}, f"needs more than the C library: {names}"
    root = t.dir / "root"
    for file in needed:
        (root / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / file.lstrip("/"))
    shutil.copy(path, root / "digits")
    shutil.copy(IMAGES[0], root / "image.jpg")
    publisher = next(t.home.rglob("local-*.pem"))
    shutil.copy(publisher, root / "key.pem")
    expected = ask(t, "digits.mlc", "-i", IMAGES[0])["outputs"]
    bare = {"PATH": "/nowhere"}
    chroot = (shutil.which("chroot"), str(root))
    # Without /proc: by the name that it was started with; native code has no folder to be looked for, and needs a key.
    answer = json.loads(alone(t, "/digits", "--input", "/image.jpg", "--trust", "/key.pem", "--json", env=bare, prefix=chroot).stdout)
    assert answer["outputs"] == expected and answer["native_allowed"], answer
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        raise Skipped("what follows needs a /proc in the folder, and so unshare")
    (root / "proc").mkdir()
    mounted = ("unshare", "-m", "sh", "-c", f'mount --bind /proc "{root}/proc" && exec chroot "{root}" "$@"', "sh")
    answer = json.loads(alone(t, "/digits", "--input", "/image.jpg", "--trust", "/key.pem", "--json", prefix=mounted).stdout)
    assert answer["outputs"] == expected and answer["native_allowed"] and answer["variant"] != "portable", answer
    answer = json.loads(alone(t, "/digits", "--input", "/image.jpg", "--json", prefix=mounted).stdout)
    assert answer["isolated"] and answer["variant"] == "portable", answer


if __name__ == "__main__":
    main([it_answers_as_mlrun_does, it_says_what_it_is, the_layout_is_that_of_the_page, the_container_comes_out_again, a_build_writes_it_too,
          runners_are_programs_that_find_a_container, damage_is_refused, trust_is_as_ever, a_file_that_it_may_not_read_is_told, files_replaced_while_they_run_are_of_no_matter, a_machine_with_nothing_but_the_c_library])
