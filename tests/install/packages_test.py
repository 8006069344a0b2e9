"""What install/packages.sh makes, installed into two bare Debian roots, where the tutorial is followed; then the wheel with the
packager in a third.

    packages_test.py BUILD

Two roots: the builder has all packages, and what compiles C; the edge has the runtime alone. Says `skipped: REASON` (exit 77) without root's rights,
debootstrap, or a mirror of Debian.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import pages

sys.path.insert(0, str(pages.ROOT / "tests/registry"))
from small_registry import SmallRegistry  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
RELEASE = "bookworm"
COMPILERS = ["cmake", "g++", "make", "pkg-config"]
MOST_OF_WHEEL = 72 << 20
MOST = {"mlrt": 4 << 20, "libmlrt1": 4 << 20, "mlrt-dev": 1 << 20, "mlpack": 10 << 20}  # bytes of a package


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=1200, **options)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Root:
    """A Debian of its own. The folder of homes is seen by every root, at the same place."""

    def __init__(self, folder, homes, name):
        self.folder, self.home, self.homes = folder, homes / name, homes
        self.home.mkdir()

    def command(self, command, variables):
        """In a namespace of mounts and of processes, with /proc, devices and the homes."""
        inside = self.folder / self.homes.relative_to("/")
        inside.mkdir(parents=True, exist_ok=True)
        mounts = "; ".join(f"mount {options} {shlex.quote(str(at))}" for options, at in [
            ("-t proc proc", self.folder / "proc"), ("--rbind /dev", self.folder / "dev"), (f"--bind {shlex.quote(str(self.homes))}", inside)])
        settings = [f"{name}={value}" for name, value in variables.items()]
        return ["unshare", "-mpf", "sh", "-euc", f'{mounts}; exec chroot "$@"', "sh", self.folder, "env", "-i", *settings, *command]

    def run(self, *command, code=0):
        variables = {"PATH": f"{self.homes}/stand-ins:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.home, "LANG": "C.UTF-8", "EDGE": self.homes / "edge"}
        inner = ["sh", "-c", 'cd "$HOME" && exec "$@"', "sh", *command]
        done = subprocess.run([str(part) for part in self.command(inner, variables)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)
        if done.returncode != code:
            raise AssertionError(f"{shlex.join(map(str, command))}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
        return done

    def needs(self, *packages):
        self.run("apt-get", "-qq", "-o", "APT::Sandbox::User=", "install", "-y", "--no-install-recommends", *packages)

    def install(self, packages):
        """Their dependencies from Debian, themselves by dpkg."""
        names = {package.name.split("_")[0] for package in packages}
        wanted = set()
        for package in packages:
            shutil.copy(package, self.home)
            depends = run("dpkg-deb", "-f", package, "Depends")
            wanted |= {entry.split()[0] for entry in depends.replace("\n", " ").split(",")} - names
        self.needs(*sorted(wanted))
        self.run("dpkg", "-i", *(package.name for package in packages))


def mirror():
    found = run("apt-get", "indextargets", "--format", "$(SITE)", f"Codename: {RELEASE}", "Component: main").split()
    return os.environ.get("MLC_DEBIAN_MIRROR") or (found[0] if found else skip(f"apt has no list of {RELEASE}'s packages"))


def bare_roots(work, names):
    homes = work / "homes"
    homes.mkdir()
    pages.with_scp(homes / "stand-ins")
    first, *others = [Root(work / name, homes, name) for name in names]
    try:
        run("debootstrap", "--variant=minbase", RELEASE, first.folder, mirror())
    except AssertionError as failure:
        skip(f"no bare Debian can be made: {str(failure).strip().splitlines()[-1]}")
    for other in others:
        run("cp", "-a", first.folder, other.folder)
    return [first, *others]


def architectures_lie_side_by_side(root, packages):
    """Libraries lie in the folder of their architecture; packages of which a machine may have two have nothing else that differs between them."""
    triplet = root.run("dpkg-query", "-L", "libc6").stdout.split("/lib/")[1].split("/")[0].strip()
    for name, package in packages.items():
        assert run("dpkg-deb", "-f", package, "Multi-Arch").strip() == ("same" if name in ("libmlrt1", "mlrt-dev") else "no"), name
        files = [line.split()[5] for line in run("dpkg-deb", "-c", package).splitlines() if not line.startswith("d")]
        # A program that another one reads (mlrun-alone) has one folder, as those in /usr/bin have.
        assert all(file.startswith(f"./usr/lib/{triplet}/") or file == "./usr/lib/mlrt/mlrun-alone" for file in files if "/lib/" in file), files
        assert name not in ("libmlrt1", "mlrt-dev") or not any(file.startswith("./usr/bin/") for file in files), files


def the_tutorial_can_be_followed(builder, edge, packages):
    by_name = {package.name.split("_")[0]: package for package in packages}
    assert set(by_name) == set(MOST), by_name
    for name, package in by_name.items():
        size = package.stat().st_size
        print(f"      {name}: {size} bytes")
        assert size < MOST[name], (name, size)
    builder.install(packages)
    for name in MOST:
        text = builder.run("cat", f"/usr/share/doc/{name}/copyright").stdout
        assert ("libflatbuffers-dev" in text) == (name != "mlrt-dev"), text[:2000]
    architectures_lie_side_by_side(builder, by_name)
    builder.needs(*COMPILERS)
    edge.install([by_name["mlrt"]])
    pages.follow("tutorial.md", {"builder": builder, "edge": edge}, 8, has_module=lambda name: False)
    builder.run("dpkg", "--purge", "mlrt-dev", "mlpack", "libmlrt1", "mlrt")
    left = builder.run("find", "/usr", "-name", "*mlrt*", "-o", "-name", "*mlpack*").stdout
    assert not left, left


def wheels(work):
    """Those of the packager and of the runtime, and numpy; empty, with a line, where PyPI has nothing."""
    folder = work / "homes/wheels"
    for script in ("packager/build_wheel.sh --build " + shlex.quote(str(BUILD)), "python/build_wheel.sh --libraries " + shlex.quote(str(BUILD / "lib"))):
        done = subprocess.run(f"bindings/{script} --out {shlex.quote(str(folder))}", shell=True, cwd=pages.ROOT, capture_output=True, text=True)
        if done.returncode == 77:
            print(done.stdout.strip().splitlines()[-1])
            return []
        assert done.returncode == 0, done.stdout + done.stderr
        assert "not manylinux" not in done.stderr, done.stderr
    run(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", folder, "numpy")
    return sorted(folder.iterdir())


ANSWER = """
import mlrt
model = mlrt.open("digits.mlc")
best = model("photo_3.jpg")[0]
print(best.label, best.score > 0.9)
"""


def the_wheels_build_and_answer(root, found):
    for wheel in found:
        print(f"      {wheel.name}: {wheel.stat().st_size} bytes")
    packager = next(wheel for wheel in found if wheel.name.startswith("mlrt_packager"))
    assert packager.stat().st_size < MOST_OF_WHEEL, packager
    root.needs("python3-venv")
    root.run("python3", "-m", "venv", "env")
    root.run("env/bin/pip", "install", "--quiet", "--no-index", "--find-links", root.homes / "wheels", "mlrt", "mlrt-packager")
    digits = pages.ROOT / "examples/digits"
    for file in (digits / "digits.onnx", digits / "pipeline.json", digits / "labels.txt", digits / "images/photo_3.jpg"):
        shutil.copy(file, root.home)
    root.run("env/bin/mlpack", "build", "digits.onnx", "--pipeline", "pipeline.json", "--target", "all", "-o", "digits.mlc")
    (root.home / "answer.py").write_text(ANSWER)
    answer = root.run("env/bin/python", "answer.py").stdout
    assert answer == "3 True\n", answer
    assert root.run("env/bin/python", "-m", "mlrt_packager", "--version").stdout.startswith("mlpack "), "no version"
    root.run("env/bin/mlpack", "executable", "digits.mlc", "-o", "digits.run")
    answer = root.run("./digits.run", "--input", "photo_3.jpg").stdout
    assert re.search(r"\b3\b", answer), answer
    with SmallRegistry() as registry:
        reference = f"{registry.host}/acme/digits:1"
        root.run("env/bin/mlpack", "push", "digits.mlc", reference)
        root.run("env/bin/mlpack", "pull", reference, "-o", "pulled.mlc")
        root.run("cmp", "digits.mlc", "pulled.mlc")
    for name, brought in (("mlrt", ("libflatbuffers-dev", "libssl3", "nanobind", "robin_map")), ("mlrt_packager", ("llvm-19-dev", "libcurl4", "libssl3", "libicu72"))):
        text = root.run("sh", "-c", f"cat env/lib/python3*/site-packages/{name}-*.dist-info/licenses/third-party.txt").stdout
        for package in brought:
            assert re.search(rf"^  {package}( |$)", text, re.M), (name, package, text[:3000])


def main():
    if os.geteuid() != 0:
        skip("bare roots need root's rights")
    for program in ("debootstrap", "unshare", "chroot", "dpkg-deb"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    os.umask(0o022)
    work = pathlib.Path(tempfile.mkdtemp(prefix="mlc-packages-"))
    try:
        made = run(pages.ROOT / "install/packages.sh", "--build", BUILD, "--out", work / "packages").split()
        builder, edge, python = bare_roots(work, ["builder", "edge", "python"])
        the_tutorial_can_be_followed(builder, edge, [pathlib.Path(path) for path in made])
        print("ok    the tutorial can be followed with packages in bare Debian roots")
        if found := wheels(work):
            the_wheels_build_and_answer(python, found)
            print("ok    the wheels build and answer in a bare Debian root with Python")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
