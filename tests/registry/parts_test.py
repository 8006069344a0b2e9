"""mlpack push --shape parts: layers that joined are the file, stored once whichever versions have them; and pulls of such artifacts, of others' making too."""
import json

from pushed import HEAD, REPOSITORY, Pushed, names, once, sample
from small_registry import SmallRegistry, digest_of
from tool_test import main

WEIGHTS = 2_400_000  # of the sample


def manifest_of(registry, tag="2"):
    return json.loads(registry.manifests[REPOSITORY][tag][1])


def joined(registry, manifest):
    return b"".join(registry.blobs[REPOSITORY][layer["digest"]] for layer in manifest["layers"])


def tagged(p, tag):
    return p.reference.replace(":2", ":" + tag)


def put_cut(p, tag, sizes, **annotations):
    """The file, cut as someone else would."""
    assert sum(sizes) == len(p.data)
    manifest, layers, at = manifest_of(p.registry), [], 0
    for size in sizes:
        layers.append({"mediaType": manifest["layers"][0]["mediaType"], **p.registry.put_blob(REPOSITORY, p.data[at:at + size])})
        at += size
    manifest["layers"] = layers
    manifest["annotations"].update({"mlc.parts": str(len(sizes)), **annotations})
    p.registry.put_manifest(REPOSITORY, tag, manifest)
    return manifest


# ---- What is right

def parts_joined_are_the_file(t):
    with Pushed(t, shape="parts") as p:
        manifest = manifest_of(p.registry)
        assert joined(p.registry, manifest) == p.data and p.pushed["blob"] == digest_of(p.data)
        assert [layer["size"] for layer in manifest["layers"]][1] == WEIGHTS and len(manifest["layers"]) == 3 == p.pushed["layers"] == p.pushed["layers_sent"]
        assert [layer["annotations"]["org.cncf.model.filepath"] for layer in manifest["layers"]] == [f"model.mlc.{k:03}" for k in range(3)]
        assert manifest["annotations"]["mlc.parts"] == "3" and manifest["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
        config = json.loads(p.registry.blobs[REPOSITORY][manifest["config"]["digest"]])
        assert config["modelfs"]["diffIds"] == [layer["digest"] for layer in manifest["layers"]]
        for flags in ((), ("--parallel", "1"), ("--parallel", "8")):
            answer = p.pull(*flags)
            assert answer["layers"] == 3 and "blob" not in answer and answer["bytes"] == len(p.data) and answer["trust"] == "trusted"
            assert len(p.data) <= answer["bytes_fetched"] < len(p.data) + HEAD + 8192, answer
        answer = t.json("mlpack", "resolve", p.reference)
        assert answer["layers"] == 3 and answer["bytes"] == len(p.data) and "blob" not in answer
        assert "in 3 layers" in t.run("mlpack", "resolve", p.reference).stdout
        pinned = f"{p.registry.host}/{REPOSITORY}@{p.pushed['digest']}"
        p.pull(reference=pinned)


def layouts_and_copies_have_parts_too(t):
    with Pushed(t, shape="parts") as p, SmallRegistry() as other:
        answer = t.json("mlpack", "export", "s.mlc", "--as", "oci-layout", "--shape", "parts", "-o", "layout")
        assert answer["digest"] == p.pushed["digest"] and answer["layers"] == 3
        for source in (p.reference, "oci:layout"):
            other.blobs.clear(), other.manifests.clear()
            assert t.json("mlpack", "copy", source, f"{other.host}/{REPOSITORY}:2")["digest"] == p.pushed["digest"]
            assert joined(other, manifest_of(other)) == p.data
        t.json("mlpack", "export", "s.mlc", "--as", "modelcar", "--shape", "parts", "-o", "car", code=2)


def an_update_of_targets_sends_no_weights(t):
    old = sample(t, "old.mlc", "large", "4", "1")
    new = sample(t, "new.mlc", "large", "4", "3")
    sent = {}
    for shape in ("modelpack", "parts"):
        with SmallRegistry() as registry:
            first, second = (f"{registry.host}/{REPOSITORY}:{tag}" for tag in (1, 2))
            t.json("mlpack", "push", "old.mlc", first, "--shape", shape)
            answer = t.json("mlpack", "push", "new.mlc", second, "--shape", shape)
            sent[shape] = answer["bytes_sent"]
            stored = sum(map(len, registry.blobs[REPOSITORY].values()))
            assert (stored < len(new) + 300_000) == (shape == "parts"), stored
            if shape == "parts":
                assert 0 < answer["layers_sent"] < answer["layers"] and not answer["was_there"], answer
                for version, data in ((1, old), (2, new)):
                    t.json("mlpack", "pull", f"{registry.host}/{REPOSITORY}:{version}", "-o", "o.mlc")
                    assert (t.dir / "o.mlc").read_bytes() == data
                answer = t.json("mlpack", "pull", second, "-o", "o.mlc", "--from", "old.mlc")
                assert answer["bytes_fetched"] < 300_000 and (t.dir / "o.mlc").read_bytes() == new, answer
    assert sent["modelpack"] > len(new) and sent["parts"] < 300_000, sent


def what_this_machine_cannot_run_is_left_out_of_parts(t):
    data = sample(t, "s.mlc", "foreign")
    thin = {}
    with SmallRegistry() as registry:
        for shape in ("modelpack", "parts"):
            reference = f"{registry.host}/{REPOSITORY}:{shape}"
            t.json("mlpack", "push", "s.mlc", reference, "--shape", shape)
            registry.bytes_out = 0
            answer = t.json("mlpack", "pull", reference, "-o", "o.mlc", "--keep-host")
            assert "foreign" in answer["absent"] and registry.bytes_out < len(data) - 700_000
            thin[shape] = (t.dir / "o.mlc").read_bytes()
    assert thin["parts"] == thin["modelpack"]


def files_of_strangers_come_in_parts(t):
    with Pushed(t, sign=False, shape="parts") as p:
        assert p.pull()["trust"] == "unsigned"
        part = manifest_of(p.registry)["layers"][1]["digest"]

        def wrong(request):
            return request.verb == "GET" and request.path.endswith(part) and p.registry.answer_bytes(request, b"x" * WEIGHTS)
        p.registry.log.clear()
        p.registry.faults.append(once(lambda request: not (request.headers.get("Range") or "").startswith("bytes=0-") and wrong(request)))
        p.pull()
        first_blob = manifest_of(p.registry)["layers"][0]["digest"]
        assert len(p.registry.requests("GET", first_blob)) == 1, "only the part that was wrong is asked for once more"
        p.registry.faults.clear()
        p.fails(wrong, 12, "the part of 2400000 bytes at 65536")


def a_registry_without_ranges_gives_whole_parts(t):
    for sign in (True, False):
        with Pushed(t, sign=sign, shape="parts") as p:
            p.registry.gives_ranges = False
            assert not p.pull()["ranges"]
            part = manifest_of(p.registry)["layers"][1]["digest"]
            wrong = lambda request: request.verb == "GET" and request.path.endswith(part) and request.answer(200, b"x" * WEIGHTS)
            p.registry.faults.append(once(wrong))
            p.pull()
            p.registry.faults.clear()
            p.fails(wrong, 12, "the part of 2400000 bytes")


def cut_transfers_of_parts_go_on(t):
    with Pushed(t, shape="parts") as p:
        part = manifest_of(p.registry)["layers"][1]["digest"]
        weights = p.data[65_536:65_536 + WEIGHTS]
        cuts = []

        def cut(request):
            if request.verb != "GET" or not request.path.endswith(part) or len(cuts) == 3:
                return False
            asked = request.headers.get("Range")
            first, last = map(int, (asked or f"bytes=0-{WEIGHTS - 1}").removeprefix("bytes=").split("-"))
            if last - first < 1_200_000:
                return False
            cuts.append(first)
            headers = {"Content-Range": f"bytes {first}-{last}/{WEIGHTS}"} if asked else {}
            return request.answer(206 if asked else 200, weights[first:last + 1], headers, send=weights[first:first + 1_100_000])
        p.registry.faults.append(cut)
        p.pull()
        assert len(cuts) >= 2 and cuts[1] > cuts[0], cuts


# ---- Parts of others

def parts_may_be_cut_anywhere(t):
    with Pushed(t) as p:
        size = len(p.data)
        for tag, sizes in (("leaf", [500_000, 700_000, size - 1_200_000]), ("byte", [1] * 20 + [size - 20]), ("head", [70, 60, 4000, size - 4130]),
                           ("end", [size - 3, 1, 2]), ("most", [size // 200] * 199 + [size - size // 200 * 199]), ("one", [size])):
            put_cut(p, tag, sizes)
            answer = p.pull(reference=tagged(p, tag))
            assert answer["layers"] == len(sizes)
            p.registry.gives_ranges = False
            p.pull(reference=tagged(p, tag))
            p.registry.gives_ranges = True


def parts_that_lie_never_become_a_file(t):
    with Pushed(t) as p:
        good = put_cut(p, "good", [65_536, 1_000_000, 1_000_000, len(p.data) - 2_065_536])
        first, second, third, last = good["layers"]

        def with_layers(*layers, parts=None):
            return {**good, "layers": list(layers), "annotations": {**good["annotations"], "mlc.parts": str(len(layers)) if parts is None else parts}}
        longer = {**second, "size": second["size"] + 1}
        shorter = {**second, "size": second["size"] - 1}
        empty = {**second, **p.registry.put_blob(REPOSITORY, b"")}
        gone = {**second, "digest": "sha256:" + "0" * 64}
        cases = [(with_layers(first, third, second, last), 12), (with_layers(last, second, third, first), (4, 12)), (with_layers(first, second, second, last), 12),
                 (with_layers(first, second, last), (4, 7, 12)), (with_layers(second, third, last), (4, 12)), (with_layers(first, second, third), (4, 7, 12)),
                 (with_layers(first, longer, third, last), (4, 7, 12, 30)), (with_layers(first, shorter, third, last), (4, 7, 12, 30)),
                 (with_layers(first, gone, third, last), 30), (with_layers(first, {**third, "size": 1 << 40}, third, last), 30),
                 (with_layers(first, empty, second, third, last), 30)]
        for parts in ("3", "5", "1", "0", "-1", "", "4.0", "04", " 4", "201", "18446744073709551620", "x" * 300):
            cases.append((with_layers(first, second, third, last, parts=parts), 30))
        byte = {**first, **p.registry.put_blob(REPOSITORY, b"x")}
        cases.append((with_layers(*[byte] * 201), 30))
        without = with_layers(first, second, third, last)
        del without["annotations"]["mlc.parts"]
        cases.append((without, 30))
        for gives_ranges in (True, False):
            p.registry.gives_ranges = gives_ranges
            for manifest, code in cases if gives_ranges else cases[:11]:
                p.registry.put_manifest(REPOSITORY, "bad", manifest)
                assert p.pull(reference=tagged(p, "bad"), code=code)["message"], manifest
        p.registry.gives_ranges = True
        # Names are names of nothing, also where they contradict the order.
        for k, layer in enumerate(good["layers"]):
            layer["annotations"] = {"org.cncf.model.filepath": f"../../model.mlc.{3 - k:03}", "org.opencontainers.image.title": "/etc/evil"}
        p.registry.put_manifest(REPOSITORY, "names", good)
        p.pull(reference=tagged(p, "names"))


def a_part_that_is_wrong_once_is_asked_for_again(t):
    with Pushed(t, shape="parts") as p:
        part = manifest_of(p.registry)["layers"][1]["digest"]
        p.registry.faults.append(once(lambda request: request.verb == "GET" and request.path.endswith(part) and
                                      not (request.headers.get("Range") or "bytes=0-").startswith("bytes=0-") and p.registry.answer_bytes(request, b"x" * WEIGHTS)))
        p.pull()
        # The signature is right, a part has another digest than the manifest says.
        manifest = manifest_of(p.registry)
        manifest["layers"][1]["digest"] = "sha256:" + "1" * 64
        p.registry.blobs[REPOSITORY]["sha256:" + "1" * 64] = p.data[65_536:65_536 + WEIGHTS]
        p.registry.put_manifest(REPOSITORY, "digest", manifest)
        before = names(t)
        answer = p.pull(reference=tagged(p, "digest"), code=12)
        assert "the part of 2400000 bytes at 65536 does not match" in answer["message"] and names(t) == before, answer


main([parts_joined_are_the_file, layouts_and_copies_have_parts_too, an_update_of_targets_sends_no_weights, what_this_machine_cannot_run_is_left_out_of_parts,
      files_of_strangers_come_in_parts, a_registry_without_ranges_gives_whole_parts, cut_transfers_of_parts_go_on, parts_may_be_cut_anywhere,
      parts_that_lie_never_become_a_file, a_part_that_is_wrong_once_is_asked_for_again])
