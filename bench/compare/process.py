"""A runtime with a model open in it, in a process of its own (peer.py)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


class Process:
    """May run on `cpus`. It opens the model at once; `facts` waits for what it says of that."""

    def __init__(self, kind, model, inputs, threads, packages, cpus):
        self.warnings = tempfile.TemporaryFile("w+", errors="replace")  # a pipe that nobody reads would stop a runtime that warns a lot
        self.process = subprocess.Popen([sys.executable, HERE / "peer.py", kind, model, inputs, str(threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.warnings,
                                        env=os.environ | {"PYTHONPATH": str(packages)}, preexec_fn=lambda: os.sched_setaffinity(0, cpus))

    def reply(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.warnings.seek(0)
        raise RuntimeError((self.warnings.read().strip().splitlines() or ["no answer"])[-1][:300])

    def ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self.reply()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.warnings.close()
