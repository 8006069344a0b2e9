"""mlpack push and copy with several blobs on their way: never more than four requests, the same artifact and the same errors whichever is answered first."""
import re
import signal
import subprocess
import threading
import time

from pushed import REPOSITORY, sample
from small_registry import SmallRegistry, digest_of
from tool_test import main

PATIENCE = 20  # seconds until a request that waits for others gives up: a failure of the test
COPIES = 10
DATA = [bytes([k]) * (1000 + k) for k in range(COPIES)]


def image(registry):
    """An image with ten layers."""
    layers = [{"mediaType": "application/octet-stream", **registry.put_blob(REPOSITORY, data)} for data in DATA]
    config = {"mediaType": "application/vnd.oci.image.config.v1+json", **registry.put_blob(REPOSITORY, b"{}")}
    kind = "application/vnd.oci.image.manifest.v1+json"
    return registry.put_manifest(REPOSITORY, "1", {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers})


def is_end(request):
    return request.verb == "PUT" and "/blobs/uploads/" in request.path


class Held:
    """The PUTs of blobs wait until `number` of them are there, once; then those are answered from the last to the first, or as `then` says."""

    def __init__(self, registry, number, then=lambda digest, request: False):
        self.registry, self.number, self.then = registry, number, then
        self.together, self.order = [], []
        self.is_full = threading.Event()
        registry.faults.append(self)

    def __call__(self, request):
        if not is_end(request):
            return False
        digest = request.query["digest"]
        with self.registry.changed:
            if self.is_full.is_set():
                return self.then(digest, request)
            self.together.append(digest)
            if len(self.together) == self.number:
                self.is_full.set()
        if not self.is_full.wait(PATIENCE):
            return request.answer(500, b"the others did not come")
        mine = self.together[::-1].index(digest)
        with self.registry.changed:
            self.registry.changed.wait_for(lambda: len(self.order) == mine, PATIENCE)
        if not self.then(digest, request):
            self.registry.serve_right(request)
        with self.registry.changed:
            self.order.append(digest)
            self.registry.changed.notify_all()
        return True


def copy(t, source, target, code=0):
    return t.json("mlpack", "copy", f"{source.host}/{REPOSITORY}:1", f"{target.host}/{REPOSITORY}:1", code=code)


def is_whole(target, digest):
    held = target.blobs[REPOSITORY]
    return target.manifests[REPOSITORY]["1"] == target.manifests[REPOSITORY][digest] and all(held.get(digest_of(data)) == data for data in [*DATA, b"{}"])


def four_blobs_of_a_push_go_at_once_whichever_is_answered_first(t):
    sample(t)
    with SmallRegistry() as plain, SmallRegistry() as registry:
        expected = t.json("mlpack", "push", "s.mlc", f"{plain.host}/{REPOSITORY}:2", "--shape", "both")
        held = Held(registry, 4)
        pushed = t.json("mlpack", "push", "s.mlc", f"{registry.host}/{REPOSITORY}:2", "--shape", "both")
        assert held.order == held.together[::-1] and len(set(held.order)) == 4, (held.order, held.together)
        assert pushed["digest"] == expected["digest"] and registry.blobs == plain.blobs and registry.manifests == plain.manifests
        assert registry.most_in_flight == 4, registry.most_in_flight
        again = t.json("mlpack", "push", "s.mlc", f"{registry.host}/{REPOSITORY}:2", "--shape", "both")
        assert again["was_there"] and not pushed["was_there"]


def ten_blobs_are_copied_four_at_once(t):
    with SmallRegistry() as source, SmallRegistry() as target:
        digest = image(source)
        held = Held(target, 4)
        assert copy(t, source, target)["digest"] == digest
        assert is_whole(target, digest) and target.most_in_flight == 4, target.most_in_flight
        assert len(held.order) == 4
        assert len(target.requests("PUT", "/blobs/uploads/")) == COPIES + 1, "each once"


def a_blob_that_is_named_twice_goes_once(t):
    with SmallRegistry() as source, SmallRegistry() as target:
        layer = {"mediaType": "text/plain", **source.put_blob(REPOSITORY, b"twice")}
        kind = "application/vnd.oci.image.manifest.v1+json"
        source.put_manifest(REPOSITORY, "1", {"schemaVersion": 2, "mediaType": kind, "config": layer, "layers": [layer, layer]})
        copy(t, source, target)
        assert len(target.requests("PUT", "/blobs/uploads/")) == 1


def blobs_of_the_same_registry_are_mounted_or_sent(t):
    for mounts in (True, False):
        with SmallRegistry() as registry:
            registry.mounts = mounts
            image(registry)
            t.run("mlpack", "copy", f"{registry.host}/{REPOSITORY}:1", f"{registry.host}/other/cat:1")
            assert registry.blobs["other/cat"] == registry.blobs[REPOSITORY] and not registry.uploads
            assert len(registry.requests("PUT", "/blobs/uploads/")) == (0 if mounts else COPIES + 1)
            assert len(registry.requests("DELETE")) == (0 if mounts else COPIES + 1), "what was begun instead is given up"


def a_busy_registry_is_asked_again_with_fewer_at_once(t):
    with SmallRegistry() as source, SmallRegistry() as target:
        digest = image(source)
        told = threading.Event()

        def busy(request):
            if is_end(request) and request.query["digest"] == digest_of(DATA[1]) and not told.is_set():
                target.most_in_flight = 0
                told.set()
                return request.answer(429, headers={"Retry-After": "1"})
            return False
        target.faults.append(busy)
        begin = time.monotonic()
        copy(t, source, target)
        assert told.is_set() and is_whole(target, digest) and time.monotonic() - begin >= 1
        assert len(target.requests("PUT", digest_of(DATA[1]))) == 0
        assert [entry["status"] for entry in target.requests("PUT", "/blobs/uploads/") if entry["query"]["digest"] == digest_of(DATA[1])] == [429, 201]


def a_piece_that_is_lost_is_sent_again_while_others_go_on(t):
    data = sample(t)
    with SmallRegistry() as registry:
        lost = []

        def lose(request):
            if request.verb == "PATCH" and len(lost) < 2:
                lost.append(request.headers["Content-Range"])
                return request.answer(500)
            return False
        registry.faults.append(lose)
        pushed = t.json("mlpack", "push", "s.mlc", f"{registry.host}/{REPOSITORY}:2", "--shape", "both", "--request-mib", "1")
        assert len(lost) == 2 and registry.blobs[REPOSITORY][pushed["blob"]] == data
        assert registry.requests("GET", "/blobs/uploads/"), "where to go on is asked"


def one_that_is_refused_ends_all_and_no_tag_is_written(t):
    with SmallRegistry() as source, SmallRegistry() as target:
        image(source)
        refused = [digest_of(DATA[1]), digest_of(DATA[0])]  # told in this order; the config, which is before them, is well

        def refuse(digest, request):
            return digest in refused and request.answer(403, b'{"errors":[{"code":"DENIED","message":"no ' + digest[7:12].encode() + b'"}]}')
        held = Held(target, 4, refuse)
        answer = copy(t, source, target, code=30)
        assert held.together and "1" not in target.manifests.get(REPOSITORY, {}), "no tag"
        assert re.search("no " + refused[1][7:12], str(answer["facts"])), answer  # the first in the order of the blobs


def ctrl_c_ends_it_and_no_tag_is_written(t):
    sample(t)
    with SmallRegistry() as registry:
        go = threading.Event()
        registry.faults.append(lambda request: is_end(request) and go.wait(PATIENCE) and False)
        process = subprocess.Popen([t.bin / "mlpack-oci", "push", "s.mlc", f"{registry.host}/{REPOSITORY}:2", "--shape", "both"], cwd=t.dir, env=t.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with registry.changed:
            assert registry.changed.wait_for(lambda: sum(is_end(request) for request in registry.in_flight if hasattr(request, "verb")) == 4, PATIENCE)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        go.set()
        assert process.returncode in (-signal.SIGINT, 130, 8), process.returncode
        assert not registry.manifests.get(REPOSITORY), registry.manifests


main([four_blobs_of_a_push_go_at_once_whichever_is_answered_first, ten_blobs_are_copied_four_at_once, a_blob_that_is_named_twice_goes_once,
      blobs_of_the_same_registry_are_mounted_or_sent, a_busy_registry_is_asked_again_with_fewer_at_once,
      a_piece_that_is_lost_is_sent_again_while_others_go_on, one_that_is_refused_ends_all_and_no_tag_is_written, ctrl_c_ends_it_and_no_tag_is_written])
