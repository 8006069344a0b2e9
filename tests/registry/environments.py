"""Environments of Python with packages of PyPI, each made once for a build: those of one tool break another's."""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from tool_test import Skipped  # noqa: E402


def environment(t, name, *packages):
    """The Python of an environment with packages of PyPI, made once for a build."""
    folder = t.bin.parent / "test-environments" / name
    python = folder / "bin/python"
    if not (folder / "complete").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        install = [python, "-m", "pip", "-q", "--disable-pip-version-check", "--retries", "0", "--timeout", "20", "install", *packages]
        for command in ([sys.executable, "-m", "venv", folder], install):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                raise Skipped(f"no environment with {name}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        (folder / "complete").touch()
    return python
