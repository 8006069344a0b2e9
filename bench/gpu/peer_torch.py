"""Kernels of PyTorch: products by cuBLASLt, convolutions by cuDNN. Reads [{kind, dtype, extents}] and writes {index: median ns of two rounds}.
Exit code 77: there is no PyTorch here, or it has no card."""
import json
import statistics
import sys


def missing(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(77)


try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    missing(f"PyTorch: {error}")
if not torch.cuda.is_available():
    missing("PyTorch sees no device of CUDA")

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True


def work_of(kind, dtype, extents):
    def draw(*shape):
        return torch.empty(shape, device="cuda", dtype=TYPES[dtype]).uniform_(-1, 1)
    if kind == "gemm":
        m, n, k = extents
        x, w = draw(m, k), draw(k, n)
        return lambda: x @ w
    if kind == "conv":
        n, c, size, k = extents
        x, w = (t.to(memory_format=torch.channels_last) for t in (draw(n, c, size, size), draw(k, c, 3, 3)))
        return lambda: F.conv2d(x, w, padding=1)
    if kind == "attention":
        q, k, v = (draw(*extents) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v)
    x = draw(*extents)
    scale = draw(extents[-1])
    return {"map": lambda: torch.tanh(torch.sigmoid(x)), "softmax": lambda: torch.softmax(x, -1), "layernorm": lambda: F.layer_norm(x, (extents[-1],), scale, scale),
            "transpose": lambda: x.t().contiguous(), "reduce": lambda: x.sum(), "cumsum": lambda: torch.cumsum(x, 1), "topk": lambda: torch.topk(x, 8, 1)}[kind]


def median_ns(work, seconds=0.3):
    for _ in range(5):
        work()
    torch.cuda.synchronize()
    times = []
    while len(times) < 5 or (sum(times) < seconds * 1e9 and len(times) < 2000):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e6)
    return statistics.median(times)


answers = {}
for index, case in enumerate(json.load(open(sys.argv[1]))):
    try:
        work = work_of(case["kind"], case["dtype"], case["extents"])
        answers[index] = statistics.mean(median_ns(work) for _ in range(2))
    except Exception as error:
        print(f"{case}: {error}", file=sys.stderr)
print(json.dumps(answers))
