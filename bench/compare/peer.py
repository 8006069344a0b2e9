"""One runtime in a process of its own: reads commands as lines of JSON, answers each with a line.

    peer.py onnxruntime|openvino|mlrt MODEL INPUTS.npz THREADS

First it opens the model and runs once. Commands: {"seconds": S} runs for that long; {"answer": FILE} writes the outputs.
"""
import json
import os
import resource
import statistics
import sys
import time

import numpy as np


class OnnxRuntime:
    def __init__(self, path, threads):
        import onnxruntime
        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.open = lambda: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def use(self, session, arrays):
        self.run = lambda: session.run(None, arrays)
        self.names = [o.name for o in session.get_outputs()]

    def answer(self):
        return dict(zip(self.names, self.run()))


class OpenVino:
    def __init__(self, path, threads):
        import openvino
        self.version = openvino.__version__.split("-")[0]
        core = openvino.Core()
        config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32",
                  "ENABLE_CPU_PINNING": False}
        self.open = lambda: core.compile_model(path, "CPU", config)

    def use(self, model, arrays):
        request = model.create_infer_request()
        self.run = lambda: request.infer(arrays, share_inputs=True, share_outputs=True)
        self.names = [next(iter(o.names)) for o in model.outputs]

    def answer(self):
        return {name: np.array(value) for name, value in zip(self.names, self.run().values())}


class Ours:
    def __init__(self, path, threads):
        import mlrt
        self.version = mlrt.__version__
        self.open = lambda: mlrt.open(path, allow_unsigned=True, memory_limit=float("inf")).session(threads=threads)

    def use(self, session, arrays):
        self.run = lambda: session.run(arrays, tensors=True)
        self.session, self.arrays = session, arrays

    def answer(self):
        return self.session.run(self.arrays)


def peak_mb():
    """The most memory that was resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


KINDS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "mlrt": Ours}


def main():
    kind, path, inputs, threads = sys.argv[1:]
    with np.load(inputs) as file:
        arrays = dict(file)
    base, loading = peak_mb(), time.perf_counter()
    peer = KINDS[kind](path, int(threads))
    before = peak_mb()
    start = time.perf_counter()
    opened = peer.open()
    opened_at = time.perf_counter()
    peer.use(opened, arrays)
    peer.run()
    first = time.perf_counter()
    package = os.path.dirname(sys.modules[kind].__file__)
    reply = {"version": peer.version, "load_ms": (start - loading) * 1e3, "open_ms": (opened_at - start) * 1e3, "first_ms": (first - start) * 1e3,
             "rss_mb": peak_mb(), "base_rss_mb": base, "package": package}
    print(json.dumps(reply), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if "answer" in command:
            np.savez(command["answer"], **peer.answer())
            reply = {"peak_mb": peak_mb() - before}
        else:
            times, end = [], time.perf_counter() + command["seconds"]
            while len(times) < 3 or time.perf_counter() < end:
                start = time.perf_counter()
                peer.run()
                times.append(time.perf_counter() - start)
            reply = {"min_ms": min(times) * 1e3, "median_ms": statistics.median(times) * 1e3, "runs": len(times)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
