"""The same files by ONNX Runtime on a card. Reads [{name, file}], takes a provider (CUDA or Tensorrt), writes {name: median ns of two rounds}: whole runs
with inputs and outputs that stay on the device. Exit code 77: it is not here, or has not that provider."""
import json
import statistics
import sys
import time


def missing(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(77)


try:
    import numpy
    import onnxruntime
except ImportError as error:
    missing(f"ONNX Runtime: {error}")
provider = f"{sys.argv[2]}ExecutionProvider"
if provider not in onnxruntime.get_available_providers():
    missing(f"ONNX Runtime without {provider}")

TYPES = {"tensor(float)": numpy.float32, "tensor(float16)": numpy.float16}


def median_ns(file, seconds=0.3):
    session = onnxruntime.InferenceSession(file, providers=[provider])
    if session.get_providers()[0] != provider:
        raise RuntimeError("it fell back to the processor")
    binding = session.io_binding()
    random = numpy.random.default_rng(1)
    for port in session.get_inputs():
        values = random.uniform(-1, 1, port.shape).astype(TYPES[port.type])
        binding.bind_ortvalue_input(port.name, onnxruntime.OrtValue.ortvalue_from_numpy(values, "cuda", 0))
    for port in session.get_outputs():
        binding.bind_output(port.name, "cuda")
    times = []
    for turn in range(2000):
        begin = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        if turn >= 5:
            times.append(time.perf_counter_ns() - begin)
        if len(times) >= 5 and sum(times) > seconds * 1e9:
            break
    return statistics.median(times)


answers = {}
for case in json.load(open(sys.argv[1])):
    try:
        answers[case["name"]] = statistics.mean(median_ns(case["file"]) for _ in range(2))
    except Exception as error:
        print(f"{case['file']}: {error}", file=sys.stderr)
print(json.dumps(answers))
