"""docs/serving.md with what is installed below a prefix: exports, a registry on loopback, the server in Python where the module mlrt is there.
What wants a cluster or a tritonserver is checked for its form: folders that commands name, objects in YAML. Servers themselves:
bindings/triton/tests; objects against schemas: tests/registry/engines_schemas_test.py; the server in Python with the wheel: bindings/python/tests."""
import json
import re
import socket
import subprocess
import sys
import types

from installed import BUILD, ROOT, SCRATCH, Machine, install, main
from pages import follow

sys.path[:0] = [str(ROOT / "tests/registry"), str(ROOT / "tests/tools")]
from environments import environment  # noqa: E402
from small_registry import SmallRegistry  # noqa: E402
from tool_test import Skipped  # noqa: E402

READ_YAML = "import json, sys, yaml; print(json.dumps([list(yaml.safe_load_all(open(path))) for path in sys.argv[1:]]))"


class Checkout:
    """A folder of the builder's as a checkout that was built; what runs here sees the build."""

    def __init__(self, builder):
        self.home = builder.home
        (self.home / "build").mkdir()
        (self.home / "build/release").symlink_to(BUILD)

    def run(self, *command, code=0):
        done = subprocess.run(list(map(str, command)), cwd=self.home, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stdout + done.stderr
        return done


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def yaml_reader():
    """A Python that has PyYAML, or None."""
    if subprocess.run([sys.executable, "-c", "import yaml"], capture_output=True).returncode == 0:
        return sys.executable
    try:
        return environment(types.SimpleNamespace(bin=BUILD / "bin"), "yaml", "PyYAML")
    except Skipped as why:
        print(f"skipped: objects of docs/serving.md are not parsed: {why}")
        return None


class Checks:
    """Of the blocks for other machines; each counts what it has seen."""

    def __init__(self, home, prefix):
        self.home, self.prefix, self.reader, self.seen = home, prefix, yaml_reader(), []

    def cluster(self, text):
        folder = re.fullmatch(r"kubectl apply -f (\w+)\n", text)[1]
        files = sorted((self.home / folder).iterdir())
        assert files and all(file.suffix == ".yaml" for file in files), files
        if self.reader:
            read = subprocess.run([str(self.reader), "-c", READ_YAML, *map(str, files)], capture_output=True, text=True)
            assert read.returncode == 0, read.stderr
            documents = sum(json.loads(read.stdout), [])
            assert len(documents) == len(files), documents
            assert all(isinstance(one, dict) and one["apiVersion"] and one["kind"] and one["metadata"]["name"] for one in documents), documents
        self.seen.append(folder)

    def server(self, text):
        """The folders of tritonserver's command line, and the model that curl asks for."""
        models, backends = (self.home / re.search(rf"--{option}=\$PWD/(\w+)", text)[1] for option in ("model-repository", "backend-directory"))
        name = re.search(r"/v2/models/(\w+)/config", text)[1]
        assert [folder.name for folder in models.iterdir()] == [name] and (models / name / "config.pbtxt").is_file(), list(models.iterdir())
        if (BUILD / "lib/triton").is_dir():
            assert {file.name for file in (backends / "mlc").iterdir()} >= {"libtriton_mlc.so", "libmlrt.so.1"}, list((backends / "mlc").iterdir())
        self.seen.append("server")

    def ray(self, text):
        """The resources are JSON, and the application takes the arguments."""
        offered = json.loads(subprocess.run([self.prefix / "bin/mlrun", "probe", "--ray"], stdout=subprocess.PIPE, check=True).stdout)
        assert offered and all(name.startswith("mlc.") and count > 0 for name, count in offered.items()), offered
        application, function = re.search(r"serve run (\w+):(\w+)", text).groups()
        source = (self.home / "examples/ray" / f"{application}.py").read_text()
        given = set(re.findall(r" (\w+)=(?=\S)", text.splitlines()[1]))
        assert f"def {function}(args)" in source and given <= set(re.findall(r'args(?:\.get\(|\[)"(\w+)"', source)), (given, source)
        compile(source, application, "exec")
        self.seen.append("ray")

    def dockerfile(self, text):
        base, copy = text.splitlines()
        source, target = re.fullmatch(r"COPY (\S+) (/\S+)", copy).groups()
        assert re.fullmatch(r"FROM [a-z0-9./-]+:\S+", base) and target.endswith(source), text
        assert (self.home / source).is_dir() or not (BUILD / "lib/triton").is_dir(), source
        self.seen.append("image")


def files_are_served_as_their_page_says():
    prefix = install(SCRATCH / "everything")
    builder = Machine("builder", prefix)
    checks = Checks(builder.home, prefix)
    elsewhere = {name: getattr(checks, name) for name in ("cluster", "server", "dockerfile", "ray")}
    machines = {"builder": builder, "checkout": Checkout(builder)}
    if not (BUILD / "lib/triton").is_dir():
        print("skipped: docs/serving.md: this build has no backend for Triton")
        elsewhere["checkout"] = lambda text: None
    with SmallRegistry() as registry:
        follow("serving.md", machines, 4, elsewhere=elsewhere, instead={"registry.example.org": registry.host, "8080": str(free_port())})
        pushed = registry.manifests["acme/digits"]
    assert "1" in pushed, pushed
    assert checks.seen == ["server", "image", "objects", "kserve", "ray"], checks.seen


main([files_are_served_as_their_page_says])
