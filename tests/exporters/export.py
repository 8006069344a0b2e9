"""Exports one model: model.onnx and the inputs of both cases, case1.npz and case2.npz, in a folder.

Where ONNX Runtime has no kernels (bfloat16), what PyTorch answers is written beside the inputs, as answer1.npz and answer2.npz.
"""
import os
import warnings

import compare
import numpy as np

SEED = 20
QUIET = 1e-4  # largest value of an output that says nothing


def flat(value):
    """Tensors of whatever a module answers, in order."""
    if value is None or isinstance(value, (int, float, str)):
        return []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in flat(part)]
    return [value]


def plain(example, precision):
    """A module with positional tensors in and a flat tuple out, in the precision of the form.

    bfloat16 stays inside: numpy has no such type, so inputs and outputs are cast."""
    import torch
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[precision]

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = example.module

        def forward(self, *inputs):
            if precision == "bf16":
                inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
            outputs = flat(example.call(self.inner, *inputs))
            if precision == "bf16":
                outputs = [x.float() if x.is_floating_point() else x for x in outputs]
            return tuple(outputs)

    if precision != "f32":
        example.module.to(dtype)
    return Plain().eval()


def drawn(example, form):
    """Inputs of the two cases."""
    import torch
    cases = []
    for number, extents in enumerate(example.extents if form.free else example.extents[:1] * 2):
        torch.manual_seed(SEED + number)
        inputs = example.draw(**extents)
        if form.precision == "f16":
            inputs = {name: x.half() if x.is_floating_point() else x for name, x in inputs.items()}
        cases.append(inputs)
    return cases


def exported(model, module, example, inputs, path):
    import torch
    names, args = list(inputs), tuple(inputs.values())
    free = {name: axes for name, axes in example.free.items() if model.form.free}
    if isinstance(module, torch.jit.ScriptModule) or model.form.exporter == "ts":
        torch.onnx.export(module, args, path, dynamo=False, opset_version=17, input_names=names, dynamic_axes=free)
        return
    dims = {label: torch.export.Dim.DYNAMIC for axes in free.values() for label in axes.values()}
    shapes = tuple({axis: dims[label] for axis, label in free.get(name, {}).items()} for name in names)
    torch.onnx.export(module, args, path, dynamo=True, input_names=names, dynamic_shapes=(shapes,) if free else None, external_data=False, verbose=False)


def arrays_of(inputs):
    return {name: x.detach().numpy() for name, x in inputs.items()}


def export_torch(model, folder):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    import weights
    example = model.make()
    weights.prepare(example)
    cases = drawn(example, model.form)
    module = example.module if isinstance(example.module, torch.jit.ScriptModule) else plain(example, model.form.precision)
    path = os.path.join(folder, "model.onnx")
    with torch.no_grad():
        exported(model, module, example, cases[0], path)
        if model.form.precision == "bf16":
            for number, inputs in enumerate(cases, 1):
                np.savez(os.path.join(folder, f"answer{number}.npz"), *[x.numpy() for x in module(*inputs.values())])
    return path, [arrays_of(inputs) for inputs in cases]


def export_direct(model, folder):
    made = model.make()
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as f:
        f.write(made.model.SerializeToString())
    return path, made.cases


def export(model, folder):
    warnings.filterwarnings("ignore")
    path, cases = (export_direct if model.form.exporter == "direct" else export_torch)(model, folder)
    if model.form.quantiser:
        import quantise
        quantise.quantised(path, model.form.quantiser, cases)
    if model.form.precision != "bf16":
        check_runs(path, cases)
    for number, inputs in enumerate(cases, 1):
        np.savez(os.path.join(folder, f"case{number}.npz"), **inputs)


def check_runs(path, cases):
    """Now and then an exporter writes a model that ONNX Runtime does not take, or only for the shape it was exported with. And an
    answer of zeros would agree with anything."""
    session = compare.session(path, optimised=False)
    for inputs in cases:
        answers = session.run(None, {name: x.astype(object) if x.dtype.kind == "U" else x for name, x in inputs.items()})
        for name, array in zip([output.name for output in session.get_outputs()], answers):
            if isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size > 1 and abs(array).max() < QUIET:
                raise RuntimeError(f"{name} is nearly zero everywhere: nothing could differ")
