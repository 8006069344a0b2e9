"""The server of docs/serving.md, run and asked as the page says."""
import os
import pathlib
import socket
import subprocess
import sys
import types
import unittest

import support

sys.path.insert(0, str(support.ROOT / "tests/install"))
from pages import follow  # noqa: E402


class Serving(unittest.TestCase):
    def test_the_server_of_the_page_answers(self):
        home = support.SCRATCH / "serving"
        home.mkdir()
        (home / "digits.mlc").symlink_to(support.digits())
        (home / "examples").symlink_to(support.ROOT / "examples")
        environment = dict(os.environ, PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")

        def run(*command, code=0):
            done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            return done

        with socket.create_server(("127.0.0.1", 0)) as one:
            port = one.getsockname()[1]
        machine = types.SimpleNamespace(home=home, run=run)
        follow("serving.md", {"builder": machine}, 1, instead={"8080": str(port)}, section="Python, one machine")
