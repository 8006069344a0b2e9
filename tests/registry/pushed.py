"""What the tests of registries share: a sample that was pushed, and pulls of it under faults."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from small_registry import SmallRegistry  # noqa: E402

REPOSITORY = "acme/cat"
HEAD = 128 << 10
STRICT = '{"rules":[{"models":["*"],"level":"strict"}]}'


def sample(t, name="s.mlc", *what, sign=True):
    t.run("sample_container", name, *what)
    if sign:
        t.run("mlpack", "sign", name)
    return (t.dir / name).read_bytes()


def names(t):
    return sorted(p.name for p in t.dir.iterdir() if p.name not in ("home", "state", "cache"))


def tagged(registry, subject):
    return {entry["digest"] for entry in json.loads(registry.manifests[REPOSITORY][subject.replace(":", "-")][1])["manifests"]}


class Pushed:
    """A registry that holds s.mlc as :2, and pulls of it into o.mlc."""

    def __init__(self, t, *what, sign=True, shape="modelpack"):
        self.shape = shape
        self.t, self.registry = t, SmallRegistry()
        self.data = sample(t, "s.mlc", *what, sign=sign)

    def __enter__(self):
        self.registry.__enter__()
        self.reference = f"{self.registry.host}/{REPOSITORY}:2"
        self.pushed = self.t.json("mlpack", "push", "s.mlc", self.reference, "--shape", self.shape)
        self.registry.log.clear()
        return self

    def __exit__(self, *what):
        self.registry.__exit__(*what)

    @property
    def blob(self):
        return self.pushed["blob"]

    def is_blob(self, request):
        return request.verb == "GET" and request.path.endswith(self.blob)

    def answer_wrong(self, request, offset=1_500_000):
        """The bytes that were asked for, one bit of the file turned."""
        if not self.is_blob(request):
            return False
        data = bytearray(self.data)
        data[offset] ^= 1
        return self.registry.answer_bytes(request, bytes(data))

    def pull(self, *flags, code=0, reference=None):
        before = names(self.t)
        answer = self.t.json("mlpack", "pull", reference or self.reference, "-o", "o.mlc", *flags, code=code, stderr=None)
        if code == 0:
            assert (self.t.dir / "o.mlc").read_bytes() == self.data
            self.t.run("mlpack", "verify", "o.mlc", "--deep", code=(0, 10))
            (self.t.dir / "o.mlc").unlink()
        assert names(self.t) == before, "nothing is left behind"
        return answer

    def fails(self, fault, code, sentence, *flags):
        self.registry.faults.append(fault)
        answer = self.pull(*flags, code=code)
        text = json.dumps(answer)
        assert sentence in text, text
        self.registry.faults.remove(fault)
        self.pull()


def once(fault):
    """The fault, the first time it can happen."""
    done = []

    def try_once(request):
        if done or not fault(request):
            return False
        done.append(1)
        return True
    return try_once
