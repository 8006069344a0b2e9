"""An installed tree in a scratch folder, and programs that run from it without the source and the build tree."""
import atexit
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="mlc-install-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


def install(prefix, *components, destdir=None):
    """`prefix` of the build; all components, or these."""
    for component in components or [None]:
        subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(prefix)] +
                       (["--component", component] if component else []), check=True, capture_output=True, text=True,
                       env=dict(os.environ, **({"DESTDIR": str(destdir)} if destdir else {})))
    return pathlib.Path(prefix)


def hiding():
    """What stands before a command so that it sees neither the source nor the build tree; empty where that cannot be had."""
    cover = " && ".join(f"mount -t tmpfs none {shlex.quote(str(tree))}" for tree in (BUILD, ROOT))
    for flags in ("-m", "-rm"):
        command = ["unshare", flags, "sh", "-c", f'{cover} && exec "$@"', "sh"]
        try:
            if subprocess.run([*command, "test", "!", "-e", str(ROOT / "README.md")], capture_output=True).returncode == 0:
                return command
        except FileNotFoundError:
            break
    print("skipped: the source tree cannot be hidden here (unshare)")
    return []


HIDING = hiding()


class Machine:
    """A home folder and a prefix: where commands run as after a login."""

    def __init__(self, name, prefix):
        self.home = SCRATCH / name
        self.home.mkdir()
        self.prefix = prefix

    def environment(self):
        library = next(self.prefix.glob("**/libmlrt.so.1")).parent
        python = pathlib.Path(sys.executable).parent  # with the modules that the tests see
        return {"PATH": f"{self.prefix}/bin:{python}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8",
                "LD_LIBRARY_PATH": str(library), "PKG_CONFIG_PATH": str(library / "pkgconfig"),
                "CMAKE_PREFIX_PATH": str(self.prefix), "MANPATH": f"{self.prefix}/share/man:"}

    def run(self, *command, code=0, without=()):
        """`without`: variables of the environment that the command is not to have."""
        env = {name: value for name, value in self.environment().items() if name not in without}
        done = subprocess.run([*HIDING, *map(str, command)], cwd=self.home, env=env, capture_output=True, text=True,
                              timeout=600, stdin=subprocess.DEVNULL)
        if done.returncode != code:
            raise AssertionError(f"{shlex.join(map(str, command))}: exit {done.returncode}, expected {code}\n"
                                 f"{done.stdout}{done.stderr}")
        return done


def main(tests):
    """Runs the functions in order; the exit status counts the failures."""
    os.umask(0o022)  # what others may change is not believed
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok    {test.__name__}")
        except subprocess.CalledProcessError as error:
            failed += 1
            print(f"FAIL  {test.__name__}: {error}\n{error.stdout}{error.stderr}")
        except Exception:
            failed += 1
            print(f"FAIL  {test.__name__}")
            traceback.print_exc(file=sys.stdout)
    print(f"[doctest] test cases: {len(tests)} | {len(tests) - failed} passed | {failed} failed | 0 skipped")
    sys.exit(min(failed, 1))
