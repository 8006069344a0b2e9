"""Containers through other people's registries and tools: Debian's docker-registry, skopeo. A tool that is not installed is a skip."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from environments import environment  # noqa: E402
from small_registry import SmallRegistry  # noqa: E402
from tool_test import Skipped, main  # noqa: E402


def needs(name):
    found = shutil.which(name)
    if not found:
        raise Skipped(f"{name} is not installed")
    return found


def sample(t, *what):
    t.run("sample_container", "s.mlc", *what)
    t.run("mlpack", "sign", "s.mlc")
    return (t.dir / "s.mlc").read_bytes()


@contextlib.contextmanager
def docker_registry(t):
    """Debian's; its address is what it says itself, since it takes port 0."""
    program = needs("docker-registry")
    config = t.dir / "home/registry.yml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"version: 0.1\nlog: {{level: info, formatter: json}}\nstorage: {{filesystem: {{rootdirectory: {t.dir}/home/storage}}}}\n"
                      "http: {addr: '127.0.0.1:0', secret: s}\n")
    log = t.dir / "home/registry.log"
    with open(log, "w") as out:
        process = subprocess.Popen([program, "serve", str(config)], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        for _ in range(600):
            lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
            host = next((line["msg"].split()[-1] for line in lines if line.get("msg", "").startswith("listening on")), None)
            if host or process.poll() is not None:
                break
            time.sleep(0.05)
        assert host, log.read_text()
        yield host
    finally:
        process.terminate()
        process.wait()


def tool(t, *command):
    done = subprocess.run(list(map(str, command)), cwd=t.dir, env=t.env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def through_the_registry_of_debian(t):
    data = sample(t)
    with docker_registry(t) as host:
        pushed = t.json("mlpack", "push", "s.mlc", f"{host}/acme/cat:2")
        assert t.json("mlpack", "push", "s.mlc", f"{host}/acme/cat:2")["was_there"]
        pulled = t.json("mlpack", "pull", f"{host}/acme/cat:2", "-o", "o.mlc")
        assert (t.dir / "o.mlc").read_bytes() == data and pulled["ranges"] and pulled["digest"] == pushed["digest"]
        t.json("mlpack", "push", "s.mlc", f"{host}/acme/pieces:1", "--request-mib", "1")
        t.json("mlpack", "pull", f"{host}/acme/pieces@{pushed['digest']}", "-o", "p.mlc", "--from", "s.mlc")
        assert (t.dir / "p.mlc").read_bytes() == data
        assert t.json("mlpack", "resolve", f"{host}/acme/cat:none", code=30)["message"] == f"{host}/acme/cat:none is not at {host}"


def skopeo_carries_it_to_a_layout_and_back(t):
    skopeo = needs("skopeo")
    data = sample(t)
    with docker_registry(t) as host:
        pushed = t.json("mlpack", "push", "s.mlc", f"{host}/acme/cat:2")
        tool(t, skopeo, "copy", "--src-tls-verify=false", f"docker://{host}/acme/cat:2", f"oci:{t.dir}/layout:2")
        tool(t, skopeo, "copy", "--dest-tls-verify=false", f"oci:{t.dir}/layout:2", f"docker://{host}/acme/back:2")
        pulled = t.json("mlpack", "pull", f"{host}/acme/back:2", "-o", "o.mlc")
        assert pulled["digest"] == pushed["digest"] and (t.dir / "o.mlc").read_bytes() == data
        assert (t.dir / "layout/blobs/sha256" / pushed["blob"].removeprefix("sha256:")).read_bytes() == data


def a_layout_goes_into_a_registry_by_skopeo(t):
    skopeo = needs("skopeo")
    data = sample(t)
    exported = t.json("mlpack", "export", "s.mlc", "--as", "oci-layout", "-o", "layout", "--tag", "v1")
    with docker_registry(t) as host:
        tool(t, skopeo, "copy", "--dest-tls-verify=false", f"oci:{t.dir}/layout:v1", f"docker://{host}/acme/cat:v1")
        pulled = t.json("mlpack", "pull", f"{host}/acme/cat:v1", "-o", "o.mlc")
        assert pulled["digest"] == exported["digest"] and (t.dir / "o.mlc").read_bytes() == data


def umoci_unpacks_the_image(t):
    umoci = needs("umoci")
    data = sample(t)
    t.json("mlpack", "export", "s.mlc", "--as", "modelcar", "-o", "image", "--tag", "v1")
    tool(t, umoci, "unpack", "--rootless", "--image", f"{t.dir}/image:v1", f"{t.dir}/bundle")
    unpacked = t.dir / "bundle/rootfs/models/model.mlc"
    assert unpacked.read_bytes() == data and unpacked.stat().st_mode & 0o777 == 0o444 and unpacked.stat().st_mtime == 0


def copies_with_referrers_pass_the_registry_of_debian(t):
    data = sample(t)
    with docker_registry(t) as host, SmallRegistry() as small:
        subject = t.json("mlpack", "push", "s.mlc", f"{small.host}/acme/cat:2")["digest"]
        for k in range(3):
            small.attach("acme/cat", subject, b"signature %d" % k)
        for source, target in ((f"{small.host}/acme/cat:2", f"{host}/acme/cat:2"), (f"{host}/acme/cat:2", f"{host}/other/cat:2"),
                               (f"{host}/other/cat:2", "oci:layout:2"), ("oci:layout:2", f"{host}/third/cat:2")):
            copied = t.json("mlpack", "copy", source, target)
            assert copied["manifests"] == 4 and copied["referrers"] == 3 and copied["digest"] == subject, copied
        t.json("mlpack", "pull", f"{host}/third/cat@{subject}", "-o", "o.mlc")
        assert (t.dir / "o.mlc").read_bytes() == data


def images_pass_the_registry_of_debian(t):
    data = sample(t)
    with docker_registry(t) as host:
        for shape in ("image", "both"):
            t.json("mlpack", "push", "s.mlc", f"{host}/acme/cat:{shape}", "--shape", shape)
            t.json("mlpack", "pull", f"{host}/acme/cat:{shape}", "-o", f"{shape}.mlc")
            assert (t.dir / f"{shape}.mlc").read_bytes() == data


def oras_of_pypi_pulls_the_file(t):
    python = environment(t, "oras", "oras==0.2.43")
    data = sample(t)
    with docker_registry(t) as host:
        t.json("mlpack", "push", "s.mlc", f"{host}/acme/cat:2")
        client = f"oras.client.OrasClient(hostname='{host}', insecure=True)"
        tool(t, python, "-c", f"import oras.client; {client}.pull(target='{host}/acme/cat:2', outdir='{t.dir}/pulled')")
        assert (t.dir / "pulled/model.mlc").read_bytes() == data


def the_storage_code_of_kserve_finds_the_file(t):
    python = environment(t, "kserve-storage", "kserve-storage==0.21.0")
    data = sample(t)
    t.env["KSERVE_OCI_INSECURE_REGISTRY"] = "true"
    with docker_registry(t) as host:
        for shape in ("image", "both"):
            t.json("mlpack", "push", "s.mlc", f"{host}/acme/cat:{shape}", "--shape", shape)
            tool(t, python, "-c", f"from kserve_storage import Storage; Storage.download('oci://{host}/acme/cat:{shape}', '{t.dir}/{shape}')")
            assert (t.dir / shape / "model.mlc").read_bytes() == data


main([
    through_the_registry_of_debian, skopeo_carries_it_to_a_layout_and_back,
    a_layout_goes_into_a_registry_by_skopeo, umoci_unpacks_the_image, images_pass_the_registry_of_debian,
    copies_with_referrers_pass_the_registry_of_debian,    oras_of_pypi_pulls_the_file, the_storage_code_of_kserve_finds_the_file,
])
