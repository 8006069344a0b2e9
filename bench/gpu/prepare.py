"""What a card needs, made on a machine with the packager: containers, modules, programs, in one folder. A bare machine with the card runs it
from there, without a compiler, a network or a package."""
import concurrent.futures
import dataclasses
import json
import lzma
import os
import pathlib
import shutil
import tarfile

import templates
from lab import Failed, Skip

HERE = pathlib.Path(__file__).resolve().parent
NODES = pathlib.Path("/usr/share/libonnx-testdata/data")
CUBINS = "80,90"
NOT_COVERED = 20  # exit code of mlpack
SCHEMA = "mlc.bench_gpu.prepared/1"


@dataclasses.dataclass
class Model:
    """A container: `file` under `models`; `dims` as mlrun takes them."""
    kind: str  # small: a template with golden vectors; full: one to be timed; start; net; node
    name: str
    file: str
    dims: list


class Prepared:
    """A folder that prepare() filled."""

    def __init__(self, folder):
        self.folder = folder
        text = json.loads((folder / "prepared.json").read_text())
        if text.get("schema") != SCHEMA:
            raise Failed(f"{folder}/prepared.json has schema {text.get('schema')}, expected {SCHEMA}")
        self.models = [Model(**m) for m in text["models"]]
        self.targets = text["targets"]
        self.modules = folder / "modules"

    def of(self, kind):
        return [m for m in self.models if m.kind == kind]

    def container(self, lab, model):
        """Where it lies, unpacked at first need."""
        target = lab.out / "models" / model.file
        packed = self.folder / "models" / f"{model.file}.xz"
        if not target.exists():
            if packed.exists():
                with lzma.open(packed) as source, target.open("wb") as out:
                    shutil.copyfileobj(source, out, 1 << 20)
            else:
                with tarfile.open(self.folder / "models" / "small.tar.xz") as archive:
                    archive.extractall(lab.out / "models", filter="data")
        return target


def prepare(lab, folder, kinds):
    """Makes the containers of `kinds` and all modules in `folder`; with --prepare, packed and with all that runs them."""
    for name in ("modules", "models", "sources"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lab.run("modules", [lab.bin / "bench_device_modules", folder / "modules"], 60)
    wanted = [(Model(kind, name, f"{kind}-{name}.mlc", dims), source, options) for kind in kinds for name, dims, source, options in SOURCES[kind](lab, folder)]
    made = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for model, done in zip([w[0] for w in wanted], pool.map(lambda w: lab.part(f"prepare {w[0].kind} {w[0].name}", build, lab, folder, *w), wanted)):
            if done:
                made.append(model)
    if not made and wanted:
        raise Skip("no container in this time")
    if lab.options.prepare:
        pack(folder, made)
        copy_programs(lab, folder)
    (folder / "prepared.json").write_text(json.dumps({"schema": SCHEMA, "targets": lab.options.targets, "models": [dataclasses.asdict(m) for m in made]}, indent=1) + "\n")
    return Prepared(folder)


def build(lab, folder, model, source, options):
    seconds = 60 if model.kind == "node" else 600
    path = folder / "models" / model.file
    lab.run(f"prepare {model.kind}", [lab.bin / "mlpack", "build", source, "-o", path, "-f", "--no-sign", "--no-selftest", "--progress", "none",
                                      "--target", ",".join(lab.options.targets), *options], seconds, codes=(0, NOT_COVERED))
    if not path.exists():
        raise Skip("the packager does not cover one of its operators")
    return True


def pack(folder, models):
    """Small ones together, since they are alike; large ones each by itself."""
    small = [m for m in models if m.kind in ("small", "node", "start")]
    if small:
        with tarfile.open(folder / "models" / "small.tar.xz", "w:xz") as archive:
            for m in small:
                archive.add(folder / "models" / m.file, m.file)
    for m in models:
        path = folder / "models" / m.file
        if m not in small:
            with path.open("rb") as source, lzma.open(f"{path}.xz", "wb", preset=1) as out:
                shutil.copyfileobj(source, out, 1 << 20)
        path.unlink()
    for name in ("sources", "fixtures", "cache"):
        shutil.rmtree(folder / name, ignore_errors=True)


def copy_programs(lab, folder):
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("mlrun", "bench_device"):
        shutil.copy2(lab.bin / name, folder / "bin" / name)
    shutil.copytree(HERE, folder / "gpu", ignore=shutil.ignore_patterns("results", "__pycache__", "*.cpp", "*.h", "CMakeLists.txt"), dirs_exist_ok=True)
    shutil.copy2(HERE.parents[1] / "tests" / "tools" / "onnx_file.py", folder / "gpu")


def has_ptxas():
    return shutil.which("ptxas") or os.access("/usr/local/cuda/bin/ptxas", os.X_OK)


def cubins(lab):
    return CUBINS if lab.options.prepare and has_ptxas() else "none"


def small_templates(lab, folder):
    for t in templates.ALL:
        yield t.name, [], templates.write(folder / "sources", t, small=True), ["--golden-time", 20, "--cubin", cubins(lab)]


def full_templates(lab, folder):
    for t in templates.ALL:
        yield t.name, [], templates.write(folder / "sources", t, small=lab.options.slow), ["--golden-time", 0, "--cubin", cubins(lab)]


def starts(lab, folder):
    t = next(t for t in templates.ALL if t.name == "softmax-f32")
    source = templates.write(folder / "sources", t, small=True)
    yield "text", [], source, ["--golden-time", 0, "--cubin", "none"]
    if has_ptxas():
        yield "cubin", [], source, ["--golden-time", 0, "--cubin", CUBINS]


def nets(lab, folder):
    for path, dims in lab.options.models:
        yield path.stem, dims, path, ["--cubin", cubins(lab)]


def nodes(lab, folder):
    found = sorted(NODES.glob("*/*/model.onnx"))
    if not found:
        lab.skip("node tests", f"no models under {NODES}")
    for path in found[::lab.options.every]:
        yield path.parent.name, [], path, ["--golden-time", 20, "--cubin", "none"]


SOURCES = {"small": small_templates, "full": full_templates, "start": starts, "net": nets, "node": nodes}
KIND_OF_STEP = {"golden": "small", "sanitizer": "small", "templates": "full", "counters": "full", "start": "start", "nets": "net", "conformance": "node"}
