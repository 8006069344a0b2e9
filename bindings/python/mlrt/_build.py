"""mlpack, where it is installed."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

from . import _errors


def _from_report(code: int, report: dict[str, Any]) -> _errors.Error:
    number = str(report.get("code", ""))
    facts, help = tuple(map(str, report.get("facts", ()))), str(report.get("help", ""))
    message = str(report.get("message", "mlpack build failed"))
    text = "\n  ".join([f"error[{number}]: {message}" if number else f"error: {message}", *facts])
    return _errors.make(code, int(number[1:]) if number[1:].isdigit() else 0, message, facts, help,
                        f"{text}\n  help: {help}" if help else text)


def build(model: str | os.PathLike[str], output: str | os.PathLike[str], *, mlpack: str | os.PathLike[str] | None = None,
          **options: Any) -> dict[str, Any]:
    """Compiles a model into a container with `mlpack build` and gives its report.

    Options are those of the command: pipeline="p.json" is --pipeline p.json, a list repeats the option, True is a flag,
    allow_unsigned is --allow-unsigned. `mlpack`: the program, in place of the one that is found in PATH."""
    program = os.fspath(mlpack) if mlpack is not None else shutil.which("mlpack")
    if not program or not os.access(program, os.X_OK):
        raise _errors.NotFound("mlpack is not installed: it is not found in PATH" if not program
                               else f"{program} is no program that can be run",
                               help="install the packager, or build(..., mlpack=PATH)")
    command = [program, "build", os.fspath(model), "-o", os.fspath(output), "--json"]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                command.append(flag)
            elif one is not None and one is not False:
                command += [flag, os.fspath(one) if isinstance(one, os.PathLike) else str(one)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        raise _errors.make(done.returncode or 70, 0, (done.stderr or done.stdout).strip() or "mlpack said nothing", (),
                           "", "") from None
    if done.returncode != 0:
        raise _from_report(done.returncode, report)
    return dict(report)
