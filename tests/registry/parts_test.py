"""mlpack push --shape parts: layers that joined are the file, stored once whichever versions have them; and pulls of such artifacts, of others' making too."""
import json
import os
import pathlib
import shutil
import struct

from pushed import HEAD, REPOSITORY, Pushed, names, once, sample
from small_registry import SmallRegistry, digest_of
from tool_test import Skipped, main

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


# ---- A folder of parts, as a tool for ModelPacks writes what it has pulled

def digits_in_parts(t):
    """The folder `parts`, a picture, the names of its parts, and which of them has a segment; digits.mlc is beside it."""
    if not (t.bin / "mlrun").exists():
        raise Skipped("no mlrun")
    from mlrun_test import IMAGES, container
    container(t)
    with SmallRegistry() as registry:
        t.json("mlpack", "push", "digits.mlc", f"{registry.host}/{REPOSITORY}:2", "--shape", "parts")
        layers = manifest_of(registry)["layers"]
        (t.dir / "parts").mkdir()
        for layer in layers:
            (t.dir / "parts" / layer["annotations"]["org.cncf.model.filepath"]).write_bytes(registry.blobs[REPOSITORY][layer["digest"]])
    segment = max(range(len(layers)), key=lambda k: layers[k]["size"])
    return t.dir / "parts", IMAGES[0], sorted(path.name for path in (t.dir / "parts").iterdir()), segment


def answer_of(t, path, image, *flags):
    from mlrun_test import ask
    answer = ask(t, path, "-i", image, *flags)
    return {key: answer[key] for key in ("outputs", "variant", "isolated", "model", "root", "trust") if key in answer}


def a_folder_of_parts_runs(t):
    folder, image, parts, _ = digits_in_parts(t)
    assert parts[0] == "model.mlc.000" and len(parts) >= 3, parts
    wanted = {}
    for flags in ((), ("--isolated",), ("--verify", "full"), ("--verify", "copy"), ("--variant", "portable"), ("--threads", "1")):
        wanted[flags] = answer_of(t, "digits.mlc", image, *flags)
        assert answer_of(t, "parts", image, *flags) == wanted[flags] == answer_of(t, "parts/", image, *flags), flags
    root = t.json("mlpack", "inspect", "digits.mlc")["root"]
    assert t.json("mlpack", "inspect", "parts")["root"] == root
    assert "every leaf" in t.run("mlpack", "verify", "parts", "--deep").stdout
    t.run("mlrun", "selftest", "parts")
    # What is made of the folder is the file.
    with SmallRegistry() as registry:
        files = [t.json("mlpack", "push", name, f"{registry.host}/{REPOSITORY}:2", "--shape", shape)["digest"] for shape in ("modelpack", "parts") for name in ("digits.mlc", "parts")]
        assert files[0] == files[1] and files[2] == files[3] != files[0], files
    t.run("mlpack", "sign", "parts", "-o", "again.mlc")
    t.json("mlpack", "sign", "parts", code=2)
    assert sorted(path.name for path in folder.iterdir()) == parts
    # Cut by other tools, beside files that are no parts.
    data = (t.dir / "digits.mlc").read_bytes()
    (t.dir / "cut").mkdir()
    for k, at in enumerate(range(0, len(data), 10_001)):
        (t.dir / "cut" / f"d.mlc.{k:03}").write_bytes(data[at:at + 10_001])
    (t.dir / "cut" / "README").write_text("parts\n")
    assert answer_of(t, "cut", image) == wanted[()]
    # A stranger's, opened in a process without privileges.
    t.new_home()
    stranger = answer_of(t, "digits.mlc", image)
    assert stranger == answer_of(t, "parts", image) and stranger["variant"] == "portable", stranger
    t.run("mlrun", "trust", "parts", "--yes", code=(0, 2))


def weights_that_end_with_a_page_run(t):
    """Kernels may load to the end of a line of 64 bytes; behind the last page of a mapped part there is nothing."""
    if not (t.bin / "mlrun").exists():
        raise Skipped("no mlrun")
    import onnx_file
    for columns in (128, 256):
        weights = struct.pack(f"<{128 * columns}f", *((k % 13 - 6) / 8 for k in range(128 * columns)))
        (t.dir / "m.onnx").write_bytes(onnx_file.model([onnx_file.node("MatMul", ["x", "w"], ["y"])], [onnx_file.port("x", "f32", [3, 128])], [onnx_file.port("y", "f32", [3, columns])],
                                                       [onnx_file.tensor("w", "f32", [128, columns], weights)]))
        t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "native")
        segment = max(t.json("mlpack", "inspect", "m.mlc")["segments"], key=lambda one: one["stored_bytes"])
        assert segment["kind"] == "weights" and segment["stored_bytes"] % 4096 == 0, segment
        data, begin, end = (t.dir / "m.mlc").read_bytes(), segment["offset"], segment["offset"] + segment["stored_bytes"]
        shutil.rmtree(t.dir / "m", ignore_errors=True)
        (t.dir / "m").mkdir()
        for k, part in enumerate((data[:begin], data[begin:end], data[end:])):
            (t.dir / "m" / f"m.mlc.{k:03}").write_bytes(part)
        for variant in ("portable", "native"):
            runs = [t.json("mlrun", "run", name, "-i", "random", "--require", variant, stderr=None)["outputs"] for name in ("m.mlc", "m")]
            assert runs[0] == runs[1], (variant, columns)


def parts_of_a_folder_that_lie_are_named(t):
    folder, image, parts, segment = digits_in_parts(t)
    good = {name: (folder / name).read_bytes() for name in parts}

    def refused(code, words, *programs):
        for program in programs or (("mlrun", "parts", "-i", image), ("mlrun", "parts", "-i", image, "--isolated"), ("mlpack", "verify", "parts", "--deep")):
            done = t.run(*program, code=code)
            assert any(word in done.stderr + done.stdout for word in words), (words, done)

    def restored():
        shutil.rmtree(folder)
        folder.mkdir()
        for name, data in good.items():
            (folder / name).write_bytes(data)

    for k, name in enumerate(parts):
        path = folder / name
        path.unlink()  # missing
        refused((3, 4), [name] if k + 1 < len(parts) else ["the last part is parts/" + parts[k - 1]])
        path.write_bytes(b"")
        refused(4, [name])
        path.unlink()
        path.symlink_to(pathlib.Path("..", "digits.mlc"))
        refused(3, [name + ": a symbolic link"])
        path.unlink()
        path.mkdir()
        refused(3, [name + " is a folder"])
        path.rmdir()
        os.mkfifo(path)
        refused(3, [name + " is a pipe"])
        path.unlink()
        path.write_bytes(good[name][:-1])  # short
        refused((4, 12), ["error"])
        path.write_bytes(good[name] + b"\1")  # long
        refused((4, 12), ["error"])
        path.write_bytes(bytes(len(good[name])))  # other bytes
        if any(good[name]):
            refused((4, 12), ["error"])
        restored()
    damaged = bytearray(good[parts[segment]])
    damaged[len(damaged) // 2] ^= 1
    (folder / parts[segment]).write_bytes(damaged)
    refused(12, [parts[segment]], ("mlpack", "verify", "parts", "--deep"), ("mlrun", "parts", "-i", image, "--verify", "full"))
    restored()
    first, second = parts[segment], parts[segment - 1 or segment + 1]
    (folder / first).write_bytes(good[second]), (folder / second).write_bytes(good[first])  # swapped
    refused((4, 12), ["error"])
    restored()
    (folder / "other.mlc.000").write_bytes(b"x")
    refused(4, ["parts of two containers"])
    (folder / "other.mlc.000").unlink()
    assert answer_of(t, "parts", image)
    (t.dir / "empty").mkdir()
    refused(3, ["empty is a folder without parts"], ("mlrun", "empty", "-i", image), ("mlpack", "inspect", "empty"))


def a_part_that_is_written_to_is_E6001(t):
    folder, _, parts, segment = digits_in_parts(t)
    from changed_file_test import until_it_has_run, until_it_runs
    from isolation_test import running
    for k, words in ((segment, ()), (segment, ("--isolated",)), (0, ()), (len(parts) - 1, ("--verify", "full"))):
        process = running(t, "bench", "parts", "--duration", "100s", "--warmup", "0s", *words)
        until_it_runs(process)
        if not words:
            until_it_has_run(process)
            assert f"/parts/{parts[segment]}\n" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "weights are mapped from their part"
        with open(folder / parts[k], "r+b") as file:  # the same bytes: only the time tells
            first = file.read(1)
            file.seek(0)
            file.write(first)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 4 and b"E6001" in err and parts[k].encode() in err, (words, process.returncode, err)


main([a_folder_of_parts_runs, weights_that_end_with_a_page_run, parts_of_a_folder_that_lie_are_named, a_part_that_is_written_to_is_E6001, parts_joined_are_the_file, layouts_and_copies_have_parts_too, an_update_of_targets_sends_no_weights, what_this_machine_cannot_run_is_left_out_of_parts,
      files_of_strangers_come_in_parts, a_registry_without_ranges_gives_whole_parts, cut_transfers_of_parts_go_on, parts_may_be_cut_anywhere,
      parts_that_lie_never_become_a_file, a_part_that_is_wrong_once_is_asked_for_again])
