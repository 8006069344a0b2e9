"""The backend in a real tritonserver, of the wheel nvidia-pytriton: answers over HTTP and gRPC against mlrun's, bit for bit. Exit code 77: no such wheel.

    triton_test.py FOLDER-OF-THE-TOOLS FOLDER-WITH-libtriton_mlc.so
"""
import array
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import time
import types

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/registry"), str(ROOT / "tests/tools")]
import npz_file as npz  # noqa: E402
import onnx_file as onnx  # noqa: E402
from environments import environment  # noqa: E402
from tool_test import Skipped, main  # noqa: E402

HOSTILE = 'a": "b" } #{{.Name}} \'\\ - [x] $(y)'
TYPES = {"f32": ("FP32", "f"), "i64": ("INT64", "q")}


def server_program(bin_dir):
    python = environment(types.SimpleNamespace(bin=pathlib.Path(bin_dir).resolve()), "triton", "--no-deps", "nvidia-pytriton")
    found = next(iter(python.parents[1].glob("lib/python*/site-packages/pytriton/tritonserver/bin/tritonserver")), None)
    if not found:
        raise Skipped("nvidia-pytriton has no tritonserver")
    found.chmod(0o755)
    return found


class Server:
    """tritonserver on loopback with the repository `models` of a scratch folder."""

    def __init__(self, t, *flags, mode="explicit", loads=()):
        self.t, self.flags = t, [f"--model-control-mode={mode}", *(f"--load-model={name}" for name in loads), *flags]

    def __enter__(self):
        backends = self.t.dir / "backends/mlc"
        backends.mkdir(parents=True, exist_ok=True)
        shutil.copy(pathlib.Path(sys.argv[2]) / "libtriton_mlc.so", backends)
        for library in ("libmlrt.so.1", "libmlio.so.1"):
            shutil.copy(self.t.bin.parent / "lib" / library, backends)
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            self.port, self.grpc_port = one.getsockname()[1], other.getsockname()[1]
        self.log = self.t.dir / "server.log"
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(
                [str(server_program(self.t.bin)), f"--model-repository={self.t.dir}/models", f"--backend-directory={self.t.dir}/backends", "--http-address=127.0.0.1",
                 f"--http-port={self.port}", "--grpc-address=127.0.0.1", f"--grpc-port={self.grpc_port}", "--allow-metrics=false", "--exit-on-error=false", *self.flags],
                env=self.t.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        for _ in range(600):
            with contextlib.suppress(OSError):
                if self.ask("GET", "/v2/health/live")[0] == 200:
                    return self
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def __exit__(self, *what):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if what[0]:
            print(f"      the server ended with {self.process.returncode}", self.log.read_text()[-3000:])

    def ask(self, verb, path, body=b"", headers=()):
        assert self.process.poll() is None, f"the server ended with {self.process.returncode}: {self.log.read_text()[-3000:]}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(verb, path, body, dict(headers))
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data, answer.headers

    def load(self, name, code=200, **parameters):
        status, data, _ = self.ask("POST", f"/v2/repository/models/{name}/load", json.dumps({"parameters": parameters} if parameters else {}))
        assert status == code, (status, data, self.log.read_text()[-4000:])
        return data.decode()

    def unload(self, name):
        # tritonserver 2.51 ends with SIGSEGV in its own TritonBackendThread::StopBackendThread, with any backend (seen with one of a single empty function),
        # where models are unloaded right after they were loaded on a busy machine.
        time.sleep(0.2)
        assert self.ask("POST", f"/v2/repository/models/{name}/unload", b"{}")[0] == 200
        for _ in range(400):
            index = json.loads(self.ask("POST", "/v2/repository/index", b"{}")[1])
            if all(one.get("reason") == "unloaded" for one in index if one["name"] == name):
                break
            time.sleep(0.02)
        time.sleep(0.05)

    def infer(self, name, inputs, code=200, **parameters):
        """`inputs`: (name, type, shape, bytes); `parameters` of the request. The outputs as {name: (type, shape, bytes)}, as bytes on the wire."""
        head = json.dumps({"inputs": [{"name": n, "datatype": t, "shape": s, "parameters": {"binary_data_size": len(d)}} for n, t, s, d in inputs],
                           "parameters": {"binary_data_output": True, **parameters}}).encode()
        status, data, headers = self.ask("POST", f"/v2/models/{name}/infer", head + b"".join(d for *_, d in inputs), {"Inference-Header-Content-Length": str(len(head))})
        assert status == code, (status, data[:2000], self.log.read_text()[-2000:])
        if code != 200:
            return json.loads(data)["error"]
        length = int(headers["Inference-Header-Content-Length"] or len(data))  # without bytes there is no such header
        out, at = {}, length
        for one in json.loads(data[:length])["outputs"]:
            size = one.get("parameters", {}).get("binary_data_size", 0)
            out[one["name"]] = (one["datatype"], one["shape"], data[at:at + size])
            at += size
        return out


def draw(t, file, extent=1, seed=1):
    """Inputs of the program main: {name: (type, shape, values)}, `extent` for what is free."""
    program = next(one for one in t.json("mlpack", "inspect", file)["programs"] if one["name"] == "main")
    numbers, out = random.Random(seed), {}
    for port in program["inputs"]:
        shape = [n if isinstance(n, int) else extent for n in port["shape"]]
        count = 1
        for n in shape:
            count *= n
        out[port["name"]] = (port["type"], shape, [numbers.uniform(-1, 1) if port["type"] == "f32" else numbers.randrange(2) for _ in range(count)])
    return out


def on_the_wire(inputs):
    return [(name, TYPES[kind][0], shape, array.array(TYPES[kind][1], values).tobytes()) for name, (kind, shape, values) in inputs.items()]


# The same request by NVIDIA's own client, in an environment of its own.
GRPC_CLIENT = """
import sys
import numpy
import tritonclient.grpc as grpc
url, name, given, wanted = sys.argv[1:]
types = {"float32": "FP32", "int64": "INT64"}
inputs = []
for key, array in numpy.load(given).items():
    inputs.append(grpc.InferInput(key, array.shape, types[str(array.dtype)]))
    inputs[-1].set_data_from_numpy(array)
answer = grpc.InferenceServerClient(url).infer(name, inputs)
for key, array in numpy.load(wanted).items():
    found = answer.as_numpy(key)
    assert found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes(), key
"""


def grpc_equals(t, server, name):
    """What in.npz asks for is what out.npz has; False where the client cannot be had."""
    try:
        python = environment(types.SimpleNamespace(bin=t.bin), "triton-client", "tritonclient[grpc]")
    except Skipped as why:
        print(f"      skipped: {why}")
        return False
    done = subprocess.run([str(python), "-c", GRPC_CLIENT, f"127.0.0.1:{server.grpc_port}", name, "in.npz", "out.npz"], cwd=t.dir, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (name, done.stderr)
    return True


def equals_mlrun(t, server, name, file, extent=1):
    inputs = draw(t, file, extent)
    npz.write(t.dir / "in.npz", inputs)
    t.run("mlrun", file, "--program", "main", "-i", "in.npz", "-o", "out.npz")
    wanted = npz.read(t.dir / "out.npz")
    found = server.infer(name, on_the_wire(inputs))
    assert set(found) == set(wanted), (set(found), set(wanted))
    size = 0
    for key, (shape, values) in wanted.items():
        code = next(c for n, c in TYPES.values() if n == found[key][0])
        assert list(shape) == found[key][1] and array.array(code, values).tobytes() == found[key][2], f"{name}: output {key} differs"
        size += len(found[key][2])
    return size


def answers_are_those_of_mlrun(t):
    models = {"digits": ROOT / "examples/digits/digits.onnx", "find": ROOT / "examples/digits/find.onnx", "texts": ROOT / "examples/search_pictures/text_model.onnx",
              "pictures": ROOT / "examples/search_pictures/vision_model.onnx"}
    for name, path in models.items():
        t.run("mlpack", "build", path, "-o", f"{name}.mlc", "--target", "native")
        t.json("mlpack", "export", f"{name}.mlc", "--as", "triton", "-o", "models", "--name", name)
    # A configuration that says nothing of ports is completed from the file.
    shutil.copytree(t.dir / "models/digits", t.dir / "models/bare")
    (t.dir / "models/bare/config.pbtxt").write_text('backend: "mlc"\n')
    with Server(t, "--strict-readiness=true", mode="none") as server:
        assert server.ask("GET", "/v2/health/ready")[0] == 200, server.log.read_text()[-4000:]
        for name in models:
            bytes_out = [equals_mlrun(t, server, name, f"{name}.mlc", extent) for extent in ((1, 4) if name in ("digits", "texts") else (64, ) if name == "find" else (1, ))]
            by_grpc = grpc_equals(t, server, name)
            print(f"      {name}: {bytes_out} bytes are equal over HTTP{' and gRPC' if by_grpc else ''}")
        equals_mlrun(t, server, "bare", "digits.mlc", 100)
        config = json.loads(server.ask("GET", "/v2/models/bare/config")[1])
        assert [p["dims"] for p in config["input"]] == [["-1", "1", "28", "28"]] or [p["dims"] for p in config["input"]] == [[-1, 1, 28, 28]], config
        assert "MLC" in json.dumps(config).upper()
        # What does not fit is an error of the request, and the server goes on.
        assert "expected" in server.infer("bare", [("image", "FP32", [1, 1, 28, 27], bytes(4 * 28 * 27))], code=400)
        assert server.infer("digits", [("image", "FP32", [65, 1, 28, 28], bytes(4 * 65 * 784))], code=400)
        assert server.infer("digits", [("image", "INT64", [1, 1, 28, 28], bytes(8 * 784))], code=400)
        equals_mlrun(t, server, "digits", "digits.mlc", 2)
    assert server.process.returncode == 0, server.process.returncode


def texts_on_the_wire(texts):
    return b"".join(struct.pack("<I", len(one)) + one for one in texts)


def texts_of(output):
    """The strings of an output of BYTES."""
    kind, shape, data = output
    assert kind == "BYTES" and len(shape) == 1, output
    out, at = [], 0
    while at < len(data):
        length, = struct.unpack_from("<I", data, at)
        out.append(data[at + 4:at + 4 + length])
        at += 4 + length
    assert len(out) == shape[0]
    return out


def pipelines_take_files_and_texts(t):
    examples, models = ROOT / "examples", ROOT.parent / "shared/models"
    t.run("mlpack", "build", examples / "digits/digits.onnx", "--pipeline", examples / "digits/pipeline.json", "-o", "digits.mlc", "--target", "native")
    t.run("mlpack", "build", examples / "search_pictures/pipeline.json", "-o", "search.mlc", "--target", "native")
    for name, file, pipeline in (("digits", "digits", "default"), ("text", "search", "text"), ("picture", "search", "picture")):
        made = t.json("mlpack", "export", f"{file}.mlc", "--as", "triton", "-o", "models", "--name", name, "--pipeline", pipeline)
        assert made["pipeline"] == pipeline and "program" not in made
    loads = ["digits", "text", "picture"]
    for name, model in (("faces", "ultraface_rfb_320.onnx"), ("denoise", "dtln_1.onnx")):
        if not (models / model).is_file():
            continue
        shutil.copytree(examples / name, t.dir / "with" / name)
        for one in models.glob("dtln_*.onnx"):
            shutil.copy(one, t.dir / "with" / name)
        t.run("mlpack", "build", *([models / model, "--pipeline"] if name == "faces" else []), f"with/{name}/pipeline.json", "-o", f"{name}.mlc", "--target", "native")
        t.json("mlpack", "export", f"{name}.mlc", "--as", "triton", "-o", "models", "--name", name, "--pipeline", "default")
        loads.append(name)
    with Server(t, loads=loads) as server:
        ports = json.loads(server.ask("GET", "/v2/models/digits")[1])
        assert ports["inputs"] == [{"name": "picture", "datatype": "BYTES", "shape": [1]}] and ports["outputs"] == [{"name": "digits", "datatype": "BYTES", "shape": [-1]}], ports
        for picture in sorted((examples / "digits/images").iterdir()):
            found = server.infer("digits", [("picture", "BYTES", [1], texts_on_the_wire([picture.read_bytes()]))])
            assert [json.loads(row) for row in texts_of(found["digits"])] == [t.json("mlrun", "run", "digits.mlc", "--input", picture)["outputs"]["digits"]], picture
        for name, word, given in (("text", "text", "a red circle"), ("picture", "picture", sorted((examples / "search_pictures/pictures").iterdir())[0])):
            sent = given.encode() if name == "text" else given.read_bytes()
            found = server.infer(name, [(word, "BYTES", [1], texts_on_the_wire([sent]))])
            t.run("mlrun", "search.mlc", "--pipeline", name, "--input", f"{word}={given}", "-o", "vector.npz")
            shape, values = npz.read(t.dir / "vector.npz")["vector"]
            assert found["vector"] == ("FP32", list(shape), array.array("f", values).tobytes()), name
        if "faces" in loads:
            found = server.infer("faces", [("photo", "BYTES", [1], texts_on_the_wire([(models / "face.png").read_bytes()]))])
            wanted = t.json("mlrun", "run", "faces.mlc", "--input", models / "face.png")["outputs"]["faces"]
            assert wanted and [json.loads(box) for box in texts_of(found["faces"])] == wanted, (found["faces"], wanted)
            t.run("mlrun", "faces.mlc", "--input", models / "face.png", "-o", "drawn.png")
            assert texts_of(found["drawn"]) == [(t.dir / "drawn.png").read_bytes()]
        if "denoise" in loads:
            found = server.infer("denoise", [("noisy", "BYTES", [1], texts_on_the_wire([(models / "speech_goforward.wav").read_bytes()]))])
            t.run("mlrun", "denoise.mlc", "--input", models / "speech_goforward.wav", "-o", "clean.wav")
            assert texts_of(found["clean"]) == [(t.dir / "clean.wav").read_bytes()]
        # What is no picture is an error of the request, and the server goes on.
        for damaged in (b"", b"no picture", (examples / "digits/images/photo_3.jpg").read_bytes()[:300]):
            server.infer("digits", [("picture", "BYTES", [1], texts_on_the_wire([damaged]))], code=400)
        server.infer("digits", [("picture", "BYTES", [2], texts_on_the_wire([b"a", b"b"]))], code=400)
        server.infer("digits", [("picture", "FP32", [1], struct.pack("<f", 1))], code=400)
        print(f"      {' '.join(loads)}: the answers are those of mlrun")
    shutil.copytree(t.dir / "models/digits", t.dir / "models/lost")
    (t.dir / "models/lost/config.pbtxt").write_text('backend: "mlc"\nparameters { key: "pipeline" value { string_value: "sound" } }\n')
    with Server(t) as server:
        assert "sound" in server.load("lost", 400)


def small(t, kind, shape, op="Identity", name="m"):
    (t.dir / "m.onnx").write_bytes(onnx.model([onnx.node(op, [HOSTILE], ["y"])], [onnx.port(HOSTILE, kind, shape)], [onnx.port("y", kind, shape)]))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "native,portable")
    t.json("mlpack", "export", "m.mlc", "--as", "triton", "-o", "models", "--name", name)


def strings_scalars_and_names_go_through(t):
    small(t, "str", ["n"], name="texts")
    small(t, "i64", [], "Neg", "scalar")
    small(t, "i64", ["N"], "Neg", "rows")
    with Server(t, loads=("texts", "scalar", "rows")) as server:
        texts = ["", "a", "\u00e9" * 1000, "x\0y"]
        wire = b"".join(struct.pack("<I", len(one.encode())) + one.encode() for one in texts)
        for count in (4, 0):
            sent = wire if count else b""
            assert server.infer("texts", [(HOSTILE, "BYTES", [count], sent)]) == {"y": ("BYTES", [count], sent)}
        assert server.infer("scalar", [(HOSTILE, "INT64", [1], struct.pack("<q", 7))])["y"] == ("INT64", [1], struct.pack("<q", -7))
        assert server.infer("rows", [(HOSTILE, "INT64", [2, 1], struct.pack("<2q", 7, 8))])["y"] == ("INT64", [2, 1], struct.pack("<2q", -7, -8))
        for damaged in (wire[:-1], wire + b"\1", wire + struct.pack("<I", 1 << 31), b"\xff" * 3):
            server.infer("texts", [(HOSTILE, "BYTES", [4], damaged)], code=400)


def sequences_have_states_of_their_own(t):
    """A running sum, whose state is what it answered: y = x + h, and h is y in the next run."""
    (t.dir / "sum.onnx").write_bytes(onnx.model([onnx.node("Add", ["x", "h"], ["y"]), onnx.node("Identity", ["y"], ["hn"])],
                                                [onnx.port("x", "f32", [2]), onnx.port("h", "f32", [2])], [onnx.port("y", "f32", [2]), onnx.port("hn", "f32", [2])]))
    t.run("mlpack", "build", "sum.onnx", "-o", "sum.mlc", "--target", "native", "--state", "h=hn")
    t.json("mlpack", "export", "sum.mlc", "--as", "triton", "-o", "models", "--name", "sum")
    for name, more in (("two", "instance_group [{ count: 2 kind: KIND_CPU }]"), ("alone", "dynamic_batching {}"), ("idle", """
            sequence_batching { direct {} max_sequence_idle_microseconds: 300000 control_input [
                { name: "READY" control [{ kind: CONTROL_SEQUENCE_READY int32_false_true: [0, 1] }] }] }"""), ("oldest", """
            parameters { key: "sequences" value { string_value: "3" } }
            sequence_batching { oldest { max_candidate_sequences: 8 } max_sequence_idle_microseconds: 60000000 control_input [
                { name: "ID" control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING }] }] }""")):
        shutil.copytree(t.dir / "models/sum", t.dir / "models" / name)
        (t.dir / "models" / name / "config.pbtxt").write_text(f'backend: "mlc"\n{more}\n')
    sums = {}

    def add(server, name, identity, x, code=200, start=False, end=False):
        """Sends x for a sequence; the answer must be the sum since its start."""
        found = server.infer(name, [("x", "FP32", [2], struct.pack("<2f", x, -x))], code, sequence_id=identity, sequence_start=start, sequence_end=end)
        if code == 200:
            sums[name, identity] = x + (0 if start else sums[name, identity])
            assert found["y"][2] == struct.pack("<2f", sums[name, identity], -sums[name, identity]), (name, identity, found, sums)
        return found

    with Server(t, loads=("sum", "two", "alone", "idle", "oldest")) as server:
        config = json.loads(server.ask("GET", "/v2/models/sum/config")[1])["sequence_batching"]
        assert "direct" in config and [one["name"] for one in config["control_input"]] == ["START", "END", "READY", "CORRID"], config
        for identity in (7, 2 ** 64 - 1, 7):  # one after the other; the second time 7 begins anew
            for k in range(5):
                add(server, "sum", identity, k + 1, start=k == 0, end=k == 4)
        assert "correlation ID" in server.infer("sum", [("x", "FP32", [2], bytes(8))], 400)  # of none
        assert "start" in add(server, "sum", 7, 1, 400).lower()
        # Two at once in two slots, and one that begins anew without an end before.
        for k in range(6):
            for identity in (1, 2):
                add(server, "two", identity, k + identity, start=k in (0, 4) and identity == 1 or k == 0)
        for identity in (1, 2):
            add(server, "two", identity, 1, end=True)
        # A request that does not fit leaves its sequence as it was.
        add(server, "sum", 9, 1, start=True)
        server.infer("sum", [("x", "FP32", [3], bytes(12))], 400, sequence_id=9, sequence_start=False, sequence_end=False)
        add(server, "sum", 9, 1, end=True)
        # Many of one instance, by names: three are kept.
        for k in range(4):
            for identity in ("a", "b", "c"):
                add(server, "oldest", identity, k + 1, start=k == 0)
        add(server, "oldest", "d", 1, start=True)
        assert "sequence 'a' has no state here" in add(server, "oldest", "a", 1, 400)
        for identity in ("b", "c", "d"):
            add(server, "oldest", identity, 1, end=True)
        add(server, "oldest", "a", 1, start=True, end=True)
        # Names of clients have an end.
        for k in range(2):
            add(server, "oldest", "n" * 128, k + 1, start=k == 0, end=k == 1)
        refused = add(server, "oldest", "n" * 129, 1, 501, start=True)  # Triton's own answer over HTTP
        assert "longer than 128" in refused, refused
        # One that Triton gives up makes room for others.
        add(server, "idle", 5, 1, start=True)
        for identity in (6, 5):
            add(server, "idle", identity, 2, start=True, end=True)
        add(server, "idle", 5, 1, 400)
        # Without the batcher of sequences requests are runs of their own.
        for _ in range(2):
            assert server.infer("alone", [("x", "FP32", [2], struct.pack("<2f", 1, 2))])["y"][2] == struct.pack("<2f", 1, 2)


def files_are_refused_whom_the_host_does_not_trust(t):
    small(t, "f32", [4], "Relu", "signed")
    t.run("mlpack", "build", "m.onnx", "-o", "u.mlc", "--target", "native,portable", "--no-sign")
    t.json("mlpack", "export", "u.mlc", "--as", "triton", "-o", "models", "--name", "unsigned")
    nobody = t.dir / "home/nobody"
    nobody.mkdir(parents=True)
    asks = {level: f'backend: "mlc"\nparameters {{ key: "trust" value {{ string_value: "{level}" }} }}\n' for level in ("portable", "any", "none")}
    for name, what, level in (("p", "signed", "portable"), ("a", "unsigned", "any"), ("n", "signed", "none")):
        shutil.copytree(t.dir / "models" / what, t.dir / "models" / name)
        (t.dir / "models" / name / "config.pbtxt").write_text(asks[level])
    sent = [(HOSTILE, "FP32", [4], struct.pack("<4f", -1, 2, -3, 4))]
    wanted = {"y": ("FP32", [4], struct.pack("<4f", 0, 2, 0, 4))}
    with Server(t, f"--backend-config=mlc,config={nobody}") as server:
        assert "trust" in server.load("signed", 400) and "not signed" in server.load("unsigned", 400)
        assert "strict, portable or any" in server.load("n", 400)
        for name in ("p", "a"):
            server.load(name)
            assert server.infer(name, sent) == wanted
        log = server.log.read_text()
        assert "variant portable" in log, log[-3000:]
    # The host's word counts more than that of a repository.
    with Server(t, f"--backend-config=mlc,config={nobody}", "--backend-config=mlc,trust=strict") as server:
        for name in ("p", "a", "signed"):
            server.load(name, 400)
    # As pods have it: a folder with the keys that `mlpack export --as k8s` put into its ConfigMap.
    t.json("mlpack", "export", "m.mlc", "--as", "k8s", "-o", "objects")
    key = (t.dir / "objects/config-map.yaml").read_text().split("key-1.pem: |\n")[1]
    (nobody / "trust").mkdir()
    (nobody / "trust/key-1.pem").write_text("".join(line.strip() + "\n" for line in key.splitlines()))
    with Server(t, f"--backend-config=mlc,config={nobody}", "--backend-config=mlc,trust=strict") as server:
        server.load("signed")
        assert server.infer("signed", sent) == wanted and "variant portable" not in server.log.read_text()
        server.load("unsigned", 400)
    damaged = bytearray((t.dir / "models/signed/1/model.mlc").read_bytes())
    damaged[300] ^= 1
    (t.dir / "models/signed/1/model.mlc").write_bytes(damaged)
    with Server(t) as server:
        assert server.load("signed", 400)
        server.load("p")
        assert server.infer("p", sent) == wanted


def loads_and_unloads_leave_nothing_behind(t):
    t.run("mlpack", "build", ROOT / "examples/digits/digits.onnx", "-o", "digits.mlc", "--target", "native")
    t.json("mlpack", "export", "digits.mlc", "--as", "triton", "-o", "models")

    def held(server):
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        maps = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text().count("model.mlc")
        return int(status.split("VmRSS:")[1].split()[0]), len(os.listdir(f"/proc/{server.process.pid}/fd")), maps, int(status.split("Threads:")[1].split()[0])
    with Server(t) as server:
        for i in range(100):
            server.load("digits")
            if i % 10 == 0:
                equals_mlrun(t, server, "digits", "digits.mlc", 2)
            server.unload("digits")
            if i == 19:
                first = held(server)
        last = held(server)
        print(f"      after 20 loads {first}, after 100 {last} (kB, descriptors, maps of the file, threads)")
        assert last[0] < first[0] + 4096 and last[1] <= first[1] + 2 and last[2] == 0 and last[3] <= first[3] + 2, (first, last)


try:
    server_program(sys.argv[1])
except Skipped as why:
    print(f"skipped: {why}")
    sys.exit(77)
main([answers_are_those_of_mlrun, pipelines_take_files_and_texts, strings_scalars_and_names_go_through, sequences_have_states_of_their_own, files_are_refused_whom_the_host_does_not_trust, loads_and_unloads_leave_nothing_behind])
