"""What the tests of the tools share: run a program in a home of its own, compare, count."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from test_cache import test_cache


class Skipped(Exception):
    """The test needs what this machine or user does not have."""


class Tools:
    """The built programs, a scratch folder and a config folder that no other test sees; and compiled kernels that all tests
    share (support/test_cache.py), unless a test wants a cache of its own."""

    def __init__(self, bin_dir, own_cache=True):
        self.bin = pathlib.Path(bin_dir).resolve()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mlc-tools-"))
        self.home = self.dir / "home"
        self.state = self.dir / "state"
        self.cache = self.dir / "cache" if own_cache else test_cache()
        self.env = dict(os.environ, XDG_CONFIG_HOME=str(self.home), XDG_STATE_HOME=str(self.state), XDG_CACHE_HOME=str(self.cache))
        self.wrapper = []  # what runs the programs, "unshare ..."

    def run(self, program, *args, code=0, user=None):
        """`code`: the expected exit code, or a tuple of those that are right. `user`: a number, for root only."""
        identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        done = subprocess.run([*self.wrapper, str(self.bin / program), *map(str, args)], cwd=self.dir, env=self.env,
                              capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, **identity)
        if done.returncode not in (code if isinstance(code, tuple) else (code,)):
            raise AssertionError(f"{program} {' '.join(map(str, args))}: exit {done.returncode}, expected {code}\n"
                                 f"{done.stdout}{done.stderr}")
        return done

    def json(self, program, *args, code=0, stderr=""):
        """`stderr`: what stands there, None: anything; mlrun tells there what runs."""
        done = self.run(program, *args, "--json", code=code)
        answer = json.loads(done.stdout)
        assert list(answer)[:2] == ["schema", "ok"], answer
        assert answer["schema"] == f"mlc.{args[0]}/1", answer
        assert answer["ok"] == (code == 0), answer
        assert answer.get("exit_code", 0) == done.returncode, answer
        assert stderr is None or done.stderr == stderr, done.stderr
        return answer

    def new_home(self):
        shutil.rmtree(self.home, ignore_errors=True)


def main(tests, own_cache=False):
    """Runs each function with fresh Tools; the exit status counts the failures. MLC_TEST_CASE: those alone whose names contain it."""
    tests = [test for test in tests if os.environ.get("MLC_TEST_CASE", "") in test.__name__]
    os.umask(0o022)  # what others may change is not believed
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background of a shell ignores
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup
    failed = skipped = 0
    for test in tests:
        tools = Tools(sys.argv[1], own_cache)
        try:
            test(tools)
            print(f"ok    {test.__name__}")
        except Skipped as why:
            skipped += 1
            print(f"skip  {test.__name__}: {why}")
        except Exception:
            failed += 1
            print(f"FAIL  {test.__name__}")
            traceback.print_exc()
        finally:
            shutil.rmtree(tools.dir, ignore_errors=True)
    print(f"[doctest] test cases: {len(tests)} | {len(tests) - failed - skipped} passed | {failed} failed | "
          f"{skipped} skipped")
    sys.exit(min(failed, 1))
