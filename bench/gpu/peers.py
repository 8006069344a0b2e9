"""What others take for the same kernels on the same card, where they are installed. {peer: {template: ns}}"""
import json
import pathlib
import re
import shutil

import templates
from lab import Skip

HERE = pathlib.Path(__file__).resolve().parent


def peers(lab, devices):
    card = devices.get("cuda")
    if not card or card.slow:
        raise Skip("no card of NVIDIA: peers by CUDA have nothing to run on")
    cases = [{"kind": t.kind, "dtype": t.dtype, "extents": t.full, "file": str(templates.write(lab, t, small=False))} for t in templates.ALL]
    listed = lab.out / "peers.json"
    listed.write_text(json.dumps(cases))
    found = lab.results.setdefault("peers", {})
    python = lab.options.python
    for name, command in (("PyTorch", [python, HERE / "peer_torch.py", listed]),
                          ("ONNX Runtime, CUDA", [python, HERE / "peer_onnxruntime.py", listed, "CUDA"]),
                          ("ONNX Runtime, TensorRT", [python, HERE / "peer_onnxruntime.py", listed, "Tensorrt"])):
        answer = lab.part(name, lab.json, name, command, lab.left() * 0.4)
        if answer:
            found[name] = {templates.ALL[int(k)].name: ns for k, ns in answer.items()}
    answer = lab.part("TensorRT", tensor_rt, lab)
    if answer:
        found["TensorRT"] = answer


def tensor_rt(lab):
    if not shutil.which("trtexec"):
        raise Skip("no trtexec")
    found = {}
    for t in templates.ALL:
        file = templates.write(lab, t, small=False)
        text = lab.part(f"TensorRT, {t.name}", lab.run, f"TensorRT {t.name}", ["trtexec", f"--onnx={file}", "--noDataTransfers", "--useCudaGraph", "--duration=1"], 60)
        least = re.search(r"GPU Compute Time: .*median = ([\d.]+) ms", text or "")
        if least:
            found[t.name] = float(least[1]) * 1e6
    return found
