#!/usr/bin/env python3
"""Models as ONNX Runtime's own tools rewrite them, against ONNX Runtime: its graph optimiser at each level, its quantisers
and its optimiser of transformers. What these write is what Olive and most exporters ship.

    rewritten.py --bin build/release/bin --shared ../shared [--only TEXT] [--check] [--keep DIR]

Models are those of <shared>/models, with the recorded inputs, and small ones of the architectures in <shared>/zoo/zoo.py.
A rewritten model is built for this host and compared with ONNX Runtime on the same file, its optimisations off; --check
only asks `mlpack check`. Says so and exits 77 without onnx and onnxruntime.
"""
import argparse
import glob
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import types
import warnings

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import version_converter
    from onnxruntime import quantization
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Of the largest output. Where a model quantises what it computes, a rounding that falls the other way is a step of 1/255, and
# one more for every layer behind: there three times what ONNX Runtime differs from itself by, optimising, is allowed too.
TOLERANCE, QUANTISED = 2e-3, 6e-2
# A layout of the machine that the file was written on: blocks of 8 or 16 channels. Refused with a sentence.
BLOCKED = "com.microsoft.nchwc"


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}: " + (done.stderr or done.stdout).strip()[:1500])
    return done.stdout


def session_of(path, level=None, save=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level or onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if save:
        options.optimized_model_filepath = save
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def inputs_of(session, extents):
    rng, made = np.random.default_rng(1), {}
    for port in session.get_inputs():
        shape = [d if isinstance(d, int) else extents[d] for d in port.shape]
        if "int" in port.type:
            made[port.name] = rng.integers(0, 2 if "mask" in port.name else 30, shape).astype(port.type[7:-1])
            if "mask" in port.name:
                made[port.name][..., 0] = 1
        else:
            made[port.name] = rng.standard_normal(shape).astype(np.float32)
    return made


class Source:
    def __init__(self, name, path, inputs, kind=None, heads=0, hidden=0):
        self.name, self.path, self.inputs, self.kind, self.heads, self.hidden = name, path, inputs, kind, heads, hidden


def sources(shared, work):
    for path in sorted(glob.glob(os.path.join(shared, "models", "*.onnx"))):
        name = os.path.basename(path)[:-5]
        cases = sorted(glob.glob(os.path.join(shared, "models/expected", name + ".*.npz")))
        for case in cases:
            with np.load(case) as arrays:
                given = {k[3:]: arrays[k] for k in arrays.files if k.startswith("in:")}
                if not any(k.startswith("seq_in:") for k in arrays.files):
                    yield Source(name, path, given, *(("gpt2", 4, 32) if "gpt2" in name else ()))
                    break
    zoo_path = os.path.join(shared, "zoo/zoo.py")
    if not os.path.exists(zoo_path):
        return
    spec = importlib.util.spec_from_file_location("zoo", zoo_path)
    zoo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(zoo)
    small = {"small_bert": (lambda: zoo.bert("small_bert", 2, 64, 4, 128), {"batch": 2, "sequence": 9}, "bert"),
             "small_gpt2": (lambda: zoo.gpt2(layers=2, c=64, h=4, vocab=120, ctx=64), {"batch": 1, "sequence": 3, "past": 4, "total": 7}, "gpt2"),
             "small_whisper": (lambda: zoo.whisper_tiny_encoder(layers=1, c=64, h=4), {}, "bart")}
    for name, (make, extents, kind) in small.items():
        net = make()
        net.name = name
        net.save(work)
        path = os.path.join(work, name + ".onnx")
        yield Source(name, path, inputs_of(session_of(path), extents), kind, 4, 64)


def newer_copy(path, beside):
    """The model in opset 21; the quantisers only write that number into older ones."""
    model = onnx.load(path)
    if any(o.domain in ("", "ai.onnx") and o.version < 21 for o in model.opset_import):
        model = version_converter.convert_version(model, 21)
    onnx.save(model, beside + ".21.onnx")
    return beside + ".21.onnx"


class Reader(quantization.CalibrationDataReader):
    def __init__(self, inputs):
        self.left = [inputs]

    def get_next(self):
        return self.left.pop() if self.left else None


def rewrites(source):
    """(name, function from input and output path, tolerance, refusal that is expected)"""
    level = onnxruntime.GraphOptimizationLevel
    kinds = quantization.QuantType

    def optimised(which):
        return lambda a, b: session_of(a, which, b)

    def static(form, activations, weights, columns=False, **more):
        def make(a, b):
            quantization.quantize_static(newer_copy(a, b), b, Reader(source.inputs), quant_format=form, activation_type=activations, weight_type=weights,
                                         per_channel=columns, extra_options=more or None)
        return make

    def then(first, which):
        def make(a, b):
            first(a, b + ".step.onnx")
            optimised(which)(b + ".step.onnx", b)
        return make

    def blocks(bits, form, **more):
        def make(a, b):
            from onnxruntime.quantization import matmul_nbits_quantizer as q
            config = q.DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=more.get("symmetric", False), bits=bits, quant_format=form,
                                                    op_types_to_quantize=more.get("ops", ("MatMul",)), quant_axes=(("MatMul", 0), ("Gather", 1)))
            made = q.MatMulNBitsQuantizer(onnx.load(newer_copy(a, b)), algo_config=config)
            made.process()
            made.model.save_model_to_file(b, False)
        return make

    def transformer(half):
        def make(a, b):
            if "torch" not in sys.modules and not importlib.util.find_spec("torch"):  # asked for one thing: whether it is the one for AMD
                torch = types.ModuleType("torch")
                torch.version = types.SimpleNamespace(hip=None)
                sys.modules["torch"] = torch
            from onnxruntime.transformers import optimizer
            from onnxruntime.transformers.fusion_options import FusionOptions
            made = optimizer.optimize_model(a, source.kind, num_heads=source.heads, hidden_size=source.hidden, optimization_options=FusionOptions(source.kind))
            if half:
                made.convert_float_to_float16(keep_io_types=True)
            made.save_model_to_file(b)
        return make

    def dynamic(weights, columns=False):
        return lambda a, b: quantization.quantize_dynamic(a, b, weight_type=weights, per_channel=columns)

    qdq, qop = quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator
    yield "basic", optimised(level.ORT_ENABLE_BASIC), TOLERANCE
    yield "extended", optimised(level.ORT_ENABLE_EXTENDED), TOLERANCE
    yield "all", optimised(level.ORT_ENABLE_ALL), TOLERANCE
    if "int8" not in source.name and "quant" not in source.name:
        yield "dynamic_u8", dynamic(kinds.QUInt8), QUANTISED
        yield "dynamic_i8_columns", dynamic(kinds.QInt8, True), QUANTISED
        yield "dynamic_extended", then(dynamic(kinds.QInt8), level.ORT_ENABLE_EXTENDED), QUANTISED
        yield "qdq_u8", static(qdq, kinds.QUInt8, kinds.QInt8, True), QUANTISED
        yield "qdq_i8", static(qdq, kinds.QInt8, kinds.QInt8, ActivationSymmetric=True, WeightSymmetric=True), QUANTISED
        yield "qdq_u16", static(qdq, kinds.QUInt16, kinds.QInt8), QUANTISED
        yield "qdq_extended", then(static(qdq, kinds.QUInt8, kinds.QUInt8), level.ORT_ENABLE_EXTENDED), QUANTISED
        yield "qdq_i8_extended", then(static(qdq, kinds.QInt8, kinds.QInt8, True), level.ORT_ENABLE_EXTENDED), QUANTISED
        yield "qdq_all", then(static(qdq, kinds.QUInt8, kinds.QInt8, True), level.ORT_ENABLE_ALL), QUANTISED
        yield "qop_u8", static(qop, kinds.QUInt8, kinds.QUInt8), QUANTISED
        yield "qop_i8_columns", static(qop, kinds.QInt8, kinds.QInt8, True), QUANTISED
        yield "qop_extended", then(static(qop, kinds.QUInt8, kinds.QInt8, True), level.ORT_ENABLE_EXTENDED), QUANTISED
        for bits in (2, 4, 8):
            yield f"blocks_{bits}", blocks(bits, qop), TOLERANCE
        yield "blocks_4_symmetric", blocks(4, qop, symmetric=True), TOLERANCE
        yield "blocks_4_gather", blocks(4, qop, ops=("MatMul", "Gather")), TOLERANCE
        yield "blocks_4_qdq", blocks(4, qdq), TOLERANCE
    if source.kind:
        yield "transformer", transformer(False), TOLERANCE
        yield "transformer_f16", transformer(True), QUANTISED
        yield "transformer_dynamic", then(transformer(False), level.ORT_ENABLE_EXTENDED), TOLERANCE


def operators(path):
    seen = set()

    def walk(graph):
        for node in graph.node:
            seen.add((node.domain, node.op_type))
            for attr in node.attribute:
                for inner in [attr.g] if attr.HasField("g") else attr.graphs:
                    walk(inner)
    walk(onnx.load(path, load_external_data=False).graph)
    return seen


def distance(want, have):
    if not want.size:
        return 0.0
    scale = float(np.abs(want.astype(np.float64)).max()) or 1.0
    return float(np.abs(have.astype(np.float64) - want).max()) / scale


def differ(names, want, answer):
    worst = 0.0
    with np.load(answer) as found:
        for name, expected in zip(names, want):
            have = found[name]
            if have.shape != expected.shape or have.dtype != expected.dtype:
                raise RuntimeError(f"{name}: found {have.dtype}{have.shape}, expected {expected.dtype}{expected.shape}")
            worst = max(worst, distance(expected, have))
    if not np.isfinite(worst):
        raise RuntimeError("not finite")
    return worst


class Check:
    def __init__(self, args, work):
        self.args, self.work, self.counts, self.seen = args, work, {}, {}
        self.mlpack, self.mlrun = (os.path.join(args.bin, tool) for tool in ("mlpack", "mlrun"))

    def say(self, what, name, text=""):
        self.counts[what] = self.counts.get(what, 0) + 1
        print(f"{what:8} {name}  {text}", flush=True)

    def one(self, source, rewrite, make, tolerance):
        name = f"{source.name}.{rewrite}"
        if self.args.only not in name:
            return
        path = os.path.join(self.work, name + ".onnx")
        try:
            make(source.path, path)
            session = session_of(path)
            want = session.run(None, source.inputs)
            if tolerance == QUANTISED and not self.args.check:
                other = session_of(path, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED).run(None, source.inputs)
                tolerance = max([tolerance, *(3 * distance(a, b) for a, b in zip(want, other))])
        except Exception as error:  # the tool does not take this model, or writes what ONNX Runtime itself refuses
            self.say("not made", name, f"{type(error).__name__}: {str(error)[:120]}".replace("\n", " "))
            return
        found = operators(path)
        for domain, op in found:
            if domain not in ("", "ai.onnx"):
                self.seen[f"{domain}.{op}"] = self.seen.get(f"{domain}.{op}", 0) + 1
        begin = time.perf_counter()
        try:
            if self.args.check:
                run([self.mlpack, "check", path])
                worst = 0.0
            else:
                container, given, answer = (os.path.join(self.work, file) for file in ("m.mlc", "in.npz", "out.npz"))
                run([self.mlpack, "build", path, "-o", container, "--target", "native", "--force"])
                np.savez(given, **source.inputs)
                run([self.mlrun, container, "--raw", "-i", given, "-o", answer])
                worst = differ([port.name for port in session.get_outputs()], want, answer)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            blocked = any(domain == BLOCKED for domain, _ in found)
            if blocked and BLOCKED in str(error) and "ORT_ENABLE_EXTENDED" in str(error):
                self.say("refused", name, "blocked layout")
            else:
                self.say("FAILED", name, str(error))
            return
        finally:
            if not self.args.keep:
                for file in glob.glob(glob.escape(path) + "*"):
                    os.remove(file)
        self.say("ok" if worst <= tolerance else "FAILED", name, f"{worst:.1e} of {tolerance:.1e} allowed in {time.perf_counter() - begin:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shared", required=True)
    parser.add_argument("--only", default="", help="of MODEL.REWRITE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--keep", help="keep the rewritten models there")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    onnxruntime.set_default_logger_severity(4)
    work = args.keep or tempfile.mkdtemp()
    os.makedirs(work, exist_ok=True)
    os.environ.setdefault("XDG_CONFIG_HOME", os.path.join(work, "home"))
    os.environ.setdefault("XDG_STATE_HOME", os.path.join(work, "home"))
    os.environ.setdefault("XDG_CACHE_HOME", os.path.join(work, "home"))
    check = Check(args, work)
    try:
        for source in sources(args.shared, work):
            for rewrite, make, tolerance in rewrites(source):
                check.one(source, rewrite, make, tolerance)
    finally:
        if not args.keep:
            shutil.rmtree(work)
    print(json.dumps(check.seen, sort_keys=True))
    print(", ".join(f"{count} {what}" for what, count in check.counts.items()) or "nothing done")
    return 1 if check.counts.get("FAILED") or not check.counts.get("ok") else 0


if __name__ == "__main__":
    sys.exit(main())
