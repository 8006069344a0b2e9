"""Objects of `mlpack export` against the schemas of Kubernetes and KServe, without a cluster. Exit code 77: PyPI's packages are not there."""
import json
import pathlib
import subprocess
import sys
import types

from environments import environment
from pushed import sample
from tool_test import Skipped, main

# Reads YAML, and checks it: objects of Kubernetes by the strict schemas of a version, those of KServe by the types of its package, in
# which a key that is unknown, or a value of another type, is an error.
READER = r'''
import json, re, sys, yaml
def walk(value, kind, where):
    if kind.startswith(("list[", "list(")):
        assert isinstance(value, list), where
        return [walk(item, kind[5:-1], f"{where}[{i}]") for i, item in enumerate(value)]
    if kind.startswith(("dict(", "dict[")):
        assert isinstance(value, dict) and all(isinstance(v, str) for v in value.values()) or "str, str" not in kind, where
        return
    plain = {"str": str, "int": int, "bool": bool, "float": float, "object": object}.get(kind)
    if plain:
        assert isinstance(value, plain) and (plain is not int or not isinstance(value, bool)), f"{where}: {value!r} is no {kind}"
        return
    import kserve, kubernetes.client as client
    model = getattr(kserve, kind, None) or getattr(client, kind, None)
    if model is None or not isinstance(value, dict):
        assert kind in ("ResourceQuantity", "IntOrString", "ResourceResource", "datetime") or model is None, f"{where}: {value!r} is no {kind}"
        return
    keys = {key: name for name, key in model.attribute_map.items()}
    types = model.openapi_types
    for key, inner in value.items():
        assert key in keys, f"{where}: unknown key {key!r} of {kind}"
        walk(inner, types[keys[key]], f"{where}.{key}")
out = []
for path in sys.argv[2:]:
    document = yaml.safe_load(open(path))
    out.append(document)
    try:
        if sys.argv[1] == "kserve":
            walk(document, {"ServingRuntime": "V1alpha1ServingRuntime", "InferenceService": "V1beta1InferenceService"}[document["kind"]], document["kind"])
        elif sys.argv[1] != "yaml":
            import kubernetes_validate
            kubernetes_validate.validate(document, sys.argv[1], strict=True)
    except Exception as error:
        print("refused:", type(error).__name__, getattr(error, "message", error))
        sys.exit(1)
print(json.dumps(out))
'''


def checked(t, version, *files, code=0):
    python = environment(t, "kubernetes", "kubernetes-validate", "kserve")
    done = subprocess.run([str(python), "-c", READER, version, *map(str, files)], cwd=t.dir, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if code == 0 else done.stdout


def objects_of_kubernetes_are_what_its_versions_know(t):
    sample(t)
    answer = t.json("mlpack", "export", "s.mlc", "--as", "k8s", "-o", "o", "--replicas", "3", "--cpu", "500m", "--memory", "1.5Gi")
    files = [t.dir / "o" / name for name in answer["files"]]
    for version in ("1.35.0", "1.36.0", "1.37.0"):
        config, deployment, service = checked(t, version, *files)
    pod = deployment["spec"]["template"]["spec"]
    assert deployment["spec"]["replicas"] == 3 and pod["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "1.5Gi"}
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == {"app.kubernetes.io/name": answer["name"]}
    t.json("mlpack", "export", "s.mlc", "--as", "triton", "-o", "models")
    assert config["data"]["config.pbtxt"] == (t.dir / "models" / answer["name"] / "config.pbtxt").read_text()
    mounted = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted[f"/models/{answer['name']}/1"] == {"name": "model", "mountPath": f"/models/{answer['name']}/1", "subPath": "models", "readOnly": True}
    assert all(mount["subPath"] in config["data"] for mount in mounted.values() if mount["name"] == "config")
    assert {volume["name"] for volume in pod["volumes"]} == {mount["name"] for mount in mounted.values()}
    # The schemas see what is wrong: a version without image volumes, a word that is misspelt.
    assert "image" in checked(t, "1.30.0", files[1], code=1)
    (t.dir / "wrong.yaml").write_text(files[1].read_text().replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"))
    assert "readOnlyRootFileSystem" in checked(t, "1.37.0", t.dir / "wrong.yaml", code=1)


def objects_of_kserve_are_what_its_types_know(t):
    sample(t)
    answer = t.json("mlpack", "export", "s.mlc", "--as", "kserve", "-o", "o")
    config, runtime, service = (t.dir / "o" / name for name in answer["files"])
    checked(t, "1.37.0", config)
    made, served = checked(t, "kserve", runtime, service)
    assert served["spec"]["predictor"]["model"]["runtime"] == made["metadata"]["name"]
    assert served["spec"]["predictor"]["model"]["modelFormat"]["name"] == made["spec"]["supportedModelFormats"][0]["name"] == "mlc"
    assert served["spec"]["predictor"]["model"]["storageUri"] == "oci://" + answer["image"]
    (t.dir / "wrong.yaml").write_text(service.read_text().replace("storageUri", "storageURI"))
    assert "storageURI" in checked(t, "kserve", t.dir / "wrong.yaml", code=1)


def strings_are_read_back_as_they_were(t):
    sample(t)
    storages = ("yes", "1e3", "0x10", "2024-01-01", "~", "null", "a: b", "- a", "#a", "{{.Name}}", "'", '"', "a\\b", "%x", "@x", "é\u00a0\u2028", "!!int 1", "*a", "&a", " a ", "=", "a\nb\n", "1:2", ".inf", "|")
    files = []
    for i, storage in enumerate(storages):
        answer = t.json("mlpack", "export", "s.mlc", "--as", "kserve", "-o", f"o{i}", "--storage", storage)
        files.append(t.dir / f"o{i}" / answer["files"][2])
    for storage, read in zip(storages, checked(t, "yaml", *files)):
        assert read["spec"]["predictor"]["model"]["storageUri"] == storage, (storage, read)


try:
    environment(types.SimpleNamespace(bin=pathlib.Path(sys.argv[1]).resolve()), "kubernetes", "kubernetes-validate", "kserve")
except Skipped as why:
    print(f"skipped: {why}")
    sys.exit(77)
main([objects_of_kubernetes_are_what_its_versions_know, objects_of_kserve_are_what_its_types_know, strings_are_read_back_as_they_were])
