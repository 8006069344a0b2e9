"""The package as a whole: its stubs, its types, and mlpack."""
import ast
import importlib.metadata
import importlib.util
import inspect
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import support

import mlrt

PACKAGE = pathlib.Path(mlrt.__file__).parent


class Stubs(unittest.TestCase):
    def test_the_stub_names_what_the_extension_has(self):
        tree = ast.parse((PACKAGE / "_core.pyi").read_text())
        said = {}
        for item in tree.body:
            if isinstance(item, ast.ClassDef):
                names = {i.name: [a.arg for a in i.args.args + i.args.kwonlyargs if a.arg != "self"]
                         for i in item.body if isinstance(i, ast.FunctionDef)}
                names |= {i.target.id: None for i in item.body if isinstance(i, ast.AnnAssign)}
                said[item.name] = names
            elif isinstance(item, ast.FunctionDef):
                said[item.name] = [a.arg for a in item.args.args]
        public = {n for n in dir(mlrt._core) if not n.startswith("_")}
        self.assertEqual(public, set(said))
        for name, methods in said.items():
            thing = getattr(mlrt._core, name)
            if not inspect.isclass(thing):
                self.assert_takes(thing, methods)
                continue
            own = {n for n in vars(thing) if not n.startswith("_") or n in ("__dlpack__", "__dlpack_device__", "__array__")}
            self.assertEqual(own - {"__buffer__"}, set(methods) - {"__init__", "__buffer__"}, name)
            for method, arguments in methods.items():
                if arguments and method not in ("__init__", "__buffer__"):
                    self.assert_takes(getattr(thing, method), arguments)

    def assert_takes(self, function, arguments):
        """The first line of a function of the extension is its signature."""
        for argument in arguments:
            self.assertIn(argument + ":", function.__doc__.split("->")[0].replace("_ :", ":"), function)

    def test_types_are_checked(self):
        if importlib.util.find_spec("mypy") is None:
            support.skip("types of the package (mypy is not installed)")
        use = support.SCRATCH / "use.py"
        use.write_text("import mlrt\n"
                       "model: mlrt.Model = mlrt.open('x.mlc', threads=1)\n"
                       "limit: int | None = model.inputs['x'].list_depth\n"
                       "line = mlrt.Line('a', 0.5)\n"
                       "text: str = line.text\n"
                       "wrong: int = line.text  # error\n")
        self.assertEqual(self.mypy("-p", "mlrt", folder=support.ROOT / "bindings/python"), [])
        found = self.mypy(use, folder=support.SCRATCH)
        self.assertEqual(len(found), 1, found)
        self.assertIn("use.py:6", found[0])

    @staticmethod
    def mypy(*arguments, folder):
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", support.SCRATCH / "mypy", *arguments],
                              capture_output=True, text=True, cwd=folder)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return [line for line in done.stdout.splitlines() if "error:" in line]


class Wheel(unittest.TestCase):
    # What PEP 600 lets a wheel take from the system, of what this one has to do with.
    SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libdl.so.2", "libpthread.so.0"}

    def test_it_needs_nothing_of_the_system_but_what_every_one_has(self):
        tags = re.findall(r"^Tag: (.+)$", importlib.metadata.distribution("mlrt").read_text("WHEEL"), re.M)
        self.assertEqual(len(tags), 1, tags)
        python, abi, platform = tags[0].split("-")
        version = f"cp3{sys.version_info[1]}"
        self.assertEqual((python, abi), ("cp312", "abi3") if sys.version_info >= (3, 12) else (version, version))
        if not platform.startswith("manylinux_"):
            self.assertTrue(platform.startswith("linux_"), platform)
            support.skip("what the wheel needs (it was built without auditwheel)")
        if not shutil.which("readelf"):
            support.skip("what the wheel needs (no readelf)")
        own = [*PACKAGE.glob("*.so*"), *PACKAGE.with_name("mlrt.libs").glob("*.so*")]
        names = {path.name for path in own}
        self.assertTrue({"libmlrt-gpu.so.1", "libmlio.so.1"} <= names, names)
        for path in own:
            text = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
            needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
            self.assertEqual({n for n in needed - names - self.SYSTEM if not n.startswith("ld-linux")}, set(), path.name)


class StableAbi(unittest.TestCase):
    def test_no_source_uses_a_macro_that_the_stable_abi_lacks(self):
        """PyBytes_AS_STRING and its like: a build for Python 3.11 takes them, one for 3.12 does not."""
        found = [(path.name, name) for path in (support.ROOT / "bindings/python/src").iterdir()
                 for name in re.findall(r"\bPy[A-Z][A-Za-z]*_[A-Z][A-Z_]+\b(?=\()", path.read_text())]
        self.assertEqual(found, [])


class Import(unittest.TestCase):
    def test_it_loads_what_a_run_needs_and_the_rest_when_it_is_asked_for(self):
        program = ("import sys, numpy\n"
                   "before = set(sys.modules)\n"
                   "import mlrt\n"
                   "heavy = {'asyncio', 'concurrent.futures', 'subprocess', 'ml_dtypes'} - before\n"
                   "print(sorted(heavy & set(sys.modules)), {'Run', 'build', 'open'} <= set(dir(mlrt)))\n"
                   "print(mlrt.Run.__name__, mlrt.build.__name__, hasattr(mlrt, 'nothing'))\n"
                   "from mlrt import *\n"
                   "print(Run is mlrt.Run, build is mlrt.build)\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "[] True\nRun build False\nTrue True\n")


class Build(unittest.TestCase):
    def test_mlpack_builds_what_is_opened(self):
        support.relu()
        out = support.SCRATCH / "built.mlc"
        report = mlrt.build(support.SCRATCH / "relu.onnx", out, mlpack=support.BIN / "mlpack", target=["native", "portable"],
                            id="tests/relu")
        self.assertTrue(report["ok"])
        self.assertEqual(mlrt.open(out).inspect()["id"], "tests/relu")

    def test_errors_of_mlpack_are_those_of_the_library(self):
        broken = support.SCRATCH / "broken.onnx"
        broken.write_bytes(b"this is no model")
        with self.assertRaises(mlrt.Malformed) as caught:
            mlrt.build(broken, support.SCRATCH / "broken.mlc", mlpack=support.BIN / "mlpack")
        self.assertRegex(caught.exception.number, "^E[0-9]{4}$")
        self.assertIn("broken.onnx", caught.exception.message)
        with self.assertRaises(mlrt.NotFound) as caught:
            mlrt.build(broken, "x.mlc", mlpack=support.SCRATCH / "no mlpack")
        self.assertTrue(caught.exception.help)
        with self.assertRaises(mlrt.UsageError):
            mlrt.build(broken, "x.mlc", mlpack=support.BIN / "mlpack", colour="red")


class Wheel(unittest.TestCase):
    def test_it_carries_its_libraries(self):
        names = {p.name for p in PACKAGE.iterdir()}
        self.assertTrue({"libmlrt-gpu.so.1", "libmlio.so.1", "py.typed", "_core.pyi"} <= names, names)
        with open("/proc/self/maps") as maps:
            loaded = {line.split()[-1] for line in maps if "libmlrt" in line or "libmlio" in line}
        self.assertTrue(loaded)
        self.assertTrue(all(path.startswith(str(PACKAGE)) for path in loaded), loaded)

    def test_its_version_is_that_of_the_library(self):
        from importlib.metadata import version
        self.assertEqual(version("mlrt"), mlrt.__version__)


if __name__ == "__main__":
    unittest.main()
