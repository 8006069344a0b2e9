"""What all steps share: where results go, how much time is left, what ran, what was skipped and why."""
import json
import os
import pathlib
import subprocess
import time


class Skip(Exception):
    """Something that this machine lacks, or no time for it. The text is shown."""


class Failed(Exception):
    """Something of ours is wrong."""


class Lab:
    def __init__(self, options):
        self.options = options
        self.out = options.out.resolve()
        self.bin = options.bin
        self.deadline = time.monotonic() + 60 * (24 * 60 if options.prepare else options.minutes)
        self.results = {"schema": "mlc.bench_gpu/1", "skipped": [], "failures": []}
        for folder in ("logs", "fixtures", "models"):
            (self.out / folder).mkdir(parents=True, exist_ok=True)
        self.env = dict(os.environ, XDG_CONFIG_HOME=str(self.out / "home"), XDG_STATE_HOME=str(self.out / "state"), XDG_CACHE_HOME=str(self.out / "cache"))

    def left(self):
        return self.deadline - time.monotonic()

    def say(self, line):
        print(line, flush=True)

    def skip(self, what, why):
        self.results["skipped"].append({"what": what, "why": str(why)})
        self.say(f"skipped: {what}: {why}")

    def fail(self, what, why):
        self.results["failures"].append({"what": what, "why": str(why)})
        self.say(f"FAILED: {what}: {why}")

    def part(self, what, function, *args):
        """Does one part of a step; what it lacks or gets wrong ends this part alone. None then."""
        try:
            return function(*args)
        except Skip as why:
            self.skip(what, why)
        except Failed as why:
            self.fail(what, why)
        return None

    def run(self, name, command, seconds, env=None, codes=(0,)):
        """Standard output of a program. `name`: of its log. Exit code 77 is a skip with the last line it wrote."""
        seconds = min(seconds, self.left())
        if seconds < 1:
            raise Skip("no time left")
        begin = time.monotonic()
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
                                  env={**self.env, **(env or {})}, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Skip(f"not done in {seconds:.0f} s")
        except OSError as error:
            raise Skip(f"{command[0]}: {error.strerror}")
        log = self.out / "logs" / (name.replace(" ", "_").replace("/", "_") + ".log")
        with log.open("a") as file:
            file.write(f"$ {' '.join(map(str, command))}\n{done.stdout}{done.stderr}exit {done.returncode}, {time.monotonic() - begin:.2f} s\n\n")
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        if done.returncode == 77:
            raise Skip(said[-1].removeprefix("skipped: "))
        if done.returncode not in codes:
            raise Failed(f"exit {done.returncode}: {said[-1][:200]} ({log.name})")
        return done.stdout

    def json(self, name, command, seconds, env=None, codes=(0,)):
        text = self.run(name, command, seconds, env, codes)
        try:
            return json.loads(text.strip().splitlines()[-1])
        except (ValueError, IndexError):
            raise Failed(f"{name}: no JSON")

    def finish(self, table):
        (self.out / "gpu.json").write_text(json.dumps(self.results, indent=1) + "\n")
        (self.out / "table.txt").write_text(table)
        self.say(f"\nresults: {self.out}\n\n{table.rstrip()}")
        return 1 if self.results["failures"] else 0


def newest(folder):
    return pathlib.Path(folder) / time.strftime("%Y-%m-%d-%H%M")
