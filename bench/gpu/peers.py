"""What others take for the same kernels on the same card, where they are installed. {peer: {template or net: ns}}"""
import json
import pathlib
import re
import shutil

import templates
from lab import Skip

HERE = pathlib.Path(__file__).resolve().parent


def peers(lab, devices, prepared):
    card = devices.get("cuda")
    if not card or card.slow:
        raise Skip("no card of NVIDIA: peers by CUDA have nothing to run on")
    cases = [{"kind": "net", "name": m.name, "dtype": "f32", "extents": m.dims} for m in prepared.of("net")]
    cases += [{"kind": t.kind, "dtype": t.dtype, "extents": t.full, "name": t.name} for t in templates.ALL]
    found = lab.results.setdefault("peers", {})
    for mode in ("f32", "tf32"):
        seconds = lab.left() * 0.3
        command = [lab.options.python, HERE / "peer_torch.py", listed(lab, cases), mode, seconds]
        answer = lab.part(f"PyTorch, {mode}", lab.json, f"PyTorch {mode}", command, seconds + 20)
        if answer:
            found[f"PyTorch, {mode}"] = answer
    for name, provider in (("ONNX Runtime, CUDA", "CUDA"), ("ONNX Runtime, TensorRT", "Tensorrt")):
        answer = lab.part(name, onnx_runtime, lab, name, provider)
        if answer:
            found[name] = answer
    answer = lab.part("TensorRT", tensor_rt, lab)
    if answer:
        found["TensorRT"] = answer


def listed(lab, cases):
    path = lab.out / "peers.json"
    path.write_text(json.dumps(cases))
    return path


def files(lab):
    return [{"name": t.name, "file": str(templates.write(lab.out / "models", t, small=False))} for t in templates.ALL]


def onnx_runtime(lab, name, provider):
    command = [lab.options.python, HERE / "peer_onnxruntime.py"]
    lab.run(name, [*command, listed(lab, []), provider], 60)  # whether it is there, before files are written for it
    return lab.json(name, [*command, listed(lab, files(lab)), provider], lab.left() * 0.4)


def tensor_rt(lab):
    if not shutil.which("trtexec"):
        raise Skip("no trtexec")
    found = {}
    for case in files(lab):
        command = ["trtexec", f"--onnx={case['file']}", "--noDataTransfers", "--useCudaGraph", "--duration=1"]
        text = lab.part(f"TensorRT, {case['name']}", lab.run, f"TensorRT {case['name']}", command, 60)
        least = re.search(r"GPU Compute Time: .*median = ([\d.]+) ms", text or "")
        if least:
            found[case["name"]] = float(least[1]) * 1e6
    return found
