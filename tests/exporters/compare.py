"""Outputs of `mlrun` against those of ONNX Runtime, case by case.

Allowed is 1e-3 of the largest value of an output; where arithmetic is coarse (half precision, quantised nets) as much as the type
itself gives, or 1.5 times what ONNX Runtime differs from itself (with and without its optimiser, for inputs changed by a
millionth, and, where nets are quantised, for one element that goes to another code), whichever is more. A quantised classifier must also give the same top answer, unless ONNX Runtime does not agree with
itself on it. A detector lists its boxes by falling scores: rows whose scores differ by less than what is allowed, a thousandth of the largest,
may stand in any order among themselves, as they do from one run of ONNX Runtime to another.
"""
import os
import subprocess

import numpy as np
import onnxruntime

import rows

TOLERANCE = {"f32": 1e-3, "f16": 4e-3, "bf16": 3e-2}


def session(path, optimised=True):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def reference(path, given):
    """A session whose optimiser does not break the model: now and then a rewrite of it fails on some shapes."""
    best = session(path)
    try:
        best.run(None, given)
    except Exception:  # noqa: BLE001  ONNX Runtime raises what it likes
        return session(path, optimised=False)
    return best


def feeds(path):
    with np.load(path, allow_pickle=True) as arrays:
        return {name: arrays[name].astype(object) if arrays[name].dtype.kind == "U" else arrays[name] for name in arrays.files}


def distance(want, have):
    """Largest difference over the largest value; infinite where shapes, types of answer or places of non-finite values differ."""
    want, have = np.asarray(want), np.asarray(have)
    if want.shape != have.shape:
        return float("inf"), f"shape {list(have.shape)}, expected {list(want.shape)}"
    if want.size == 0:
        return 0.0, ""
    if want.dtype.kind not in "fiu":
        wrong = float(np.mean(want.astype(str) != have.astype(str)))
        return wrong, f"{wrong:.1%} of the values differ" if wrong else ""
    want, have = want.astype(np.float64), have.astype(np.float64)
    finite = np.isfinite(want)
    if not (finite == np.isfinite(have)).all() or not (want[~finite & ~np.isnan(want)] == have[~finite & ~np.isnan(want)]).all():
        return float("inf"), "not finite in other places"
    if not finite.any():
        return 0.0, ""
    scale = max(float(np.abs(want[finite]).max()), 1e-30)
    return float(np.abs(have[finite] - want[finite]).max()) / scale, ""


def worst(names, want, have):
    found = [(*distance(w, h), name) for name, w, h in zip(names, want, have)]
    value, why, name = max(found, key=lambda f: f[0])
    return value, f"{name}: {why}" if why else ""


def one_moved(x):
    """`x` with one of its elements another: a quantised net notices no less than a step, and may make much of it."""
    if x.dtype != np.float32 or x.size == 0:
        return x
    moved = x.copy()
    moved.flat[x.size // 2] += np.abs(x).max() / 64
    return moved


def others(path, names, given, quantised):
    """What ONNX Runtime answers without its optimiser, and for inputs that differ by a millionth: where a net rounds, that is enough for a step."""
    plain = session(path, optimised=False)
    nudged = {name: x * (1 + np.resize([1e-6, -1e-6], x.shape)).astype(x.dtype) if x.dtype == np.float32 else x for name, x in given.items()}
    inputs = [given, nudged, {name: one_moved(x) for name, x in given.items()}] if quantised else [given, nudged]
    return [plain.run(names, some) for some in inputs]


def same_top(want, have):
    """Whether the first output names the same class for every row, where it looks like classes."""
    want, have = np.asarray(want[0]), np.asarray(have[0])
    return want.ndim != 2 or want.dtype.kind != "f" or want.shape != have.shape or bool((want.argmax(1) == have.argmax(1)).all())


def answer_of(mlrun, container, given, work, names):
    path = os.path.join(work, "answer.npz")
    done = subprocess.run([mlrun, "run", container, "--raw", "-i", given, "-o", path, "--time-limit", "none"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"mlrun: exit {done.returncode}: {done.stderr.strip()}")
    with np.load(path, allow_pickle=True) as arrays:
        return [arrays[name] for name in names]


def compare(model, folder, container, mlrun):
    """{difference, allowed, message, moved}; message is empty where both cases agree. moved: rows of a detector in another order."""
    path = os.path.join(folder, "model.onnx")
    has_kernels, names = model.form.precision != "bf16", output_names(path)
    exact = model.form.precision == "f32" and not model.form.quantiser
    result = {"difference": 0.0, "allowed": TOLERANCE[model.form.precision], "message": "", "moved": 0}
    for number in (1, 2):
        given = os.path.join(folder, f"case{number}.npz")
        if has_kernels:
            want = reference(path, feeds(given)).run(names, feeds(given))
            itself = [want] if exact else others(path, names, feeds(given), bool(model.form.quantiser))
        else:
            with np.load(os.path.join(folder, f"answer{number}.npz")) as arrays:
                want = [arrays[name] for name in arrays.files]
                itself = [want]
        have = answer_of(mlrun, container, given, folder, names)
        if model.family == "detection":
            have, moved = rows.same_order(want, have)
            result["moved"] += moved
        allowed = TOLERANCE[model.form.precision]
        if not exact:
            allowed = max(allowed, 1.5 * max(worst(names, other, want)[0] for other in itself))
        found, why = min(worst(names, one, have) for one in [want, *itself[:2]])
        if not found <= result["difference"]:
            result["difference"], result["allowed"] = found, allowed
        if not found <= allowed:
            result["message"] = f"case {number}: {found:.1e} of {allowed:.1e}" + (f", {why}" if why else "")
        elif model.form.quantiser and all(same_top(want, other) for other in itself) and not same_top(want, have):
            result["message"] = f"case {number}: another top answer"
    return result


def output_names(path):
    import onnx
    return [value.name for value in onnx.load(path, load_external_data=False).graph.output]
