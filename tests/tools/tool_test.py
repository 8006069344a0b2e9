"""What the tests of the tools share: run a program in a home of its own, compare, count."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback


class Tools:
    """The built programs, a scratch folder and a config folder that no other test sees."""

    def __init__(self, bin_dir):
        self.bin = pathlib.Path(bin_dir).resolve()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mlc-tools-"))
        self.home = self.dir / "home"
        self.env = dict(os.environ, XDG_CONFIG_HOME=str(self.home))

    def run(self, program, *args, code=0):
        """`code`: the expected exit code, or a tuple of those that are right."""
        done = subprocess.run([str(self.bin / program), *map(str, args)], cwd=self.dir, env=self.env,
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        if done.returncode not in (code if isinstance(code, tuple) else (code,)):
            raise AssertionError(f"{program} {' '.join(map(str, args))}: exit {done.returncode}, expected {code}\n"
                                 f"{done.stdout}{done.stderr}")
        return done

    def json(self, program, *args, code=0):
        done = self.run(program, *args, "--json", code=code)
        answer = json.loads(done.stdout)
        assert list(answer)[:2] == ["schema", "ok"], answer
        assert answer["schema"] == f"mlc.{args[0]}/1", answer
        assert answer["ok"] == (code == 0), answer
        assert answer.get("exit_code", 0) == done.returncode, answer
        assert done.stderr == "", done.stderr
        return answer

    def new_home(self):
        shutil.rmtree(self.home, ignore_errors=True)


def main(tests):
    """Runs each function with fresh Tools; the exit status counts the failures."""
    failed = 0
    for test in tests:
        tools = Tools(sys.argv[1])
        try:
            test(tools)
            print(f"ok    {test.__name__}")
        except Exception:
            failed += 1
            print(f"FAIL  {test.__name__}")
            traceback.print_exc()
        finally:
            shutil.rmtree(tools.dir, ignore_errors=True)
    print(f"[doctest] test cases: {len(tests)} | {len(tests) - failed} passed | {failed} failed | 0 skipped")
    sys.exit(min(failed, 1))
