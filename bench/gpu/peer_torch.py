"""Kernels of PyTorch: products by cuBLASLt, convolutions by cuDNN; whole nets as CUDA graphs. Takes a list of {name, kind, dtype, extents}, f32
or tf32, and seconds after which no other is begun, and writes {name: median ns of two rounds}. Exit code 77: there is no PyTorch here, or it has no card."""
import json
import statistics
import sys
import time

BEGAN = time.monotonic()


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
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = sys.argv[2] == "tf32"
torch.backends.cudnn.benchmark = True


def bert(layers, width, heads, inner):
    from transformers import BertConfig, BertModel
    return BertModel(BertConfig(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=inner), add_pooling_layer=False)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(use_cache=False))


def vision(name):
    import torchvision
    return getattr(torchvision.models, name)()


# By the name of an ONNX file: the module, and its input where each free extent has a number.
NETS = {"resnet50": (lambda: vision("resnet50"), lambda **d: torch.randn(1, 3, 224, 224)), "mobilenet_v2": (lambda: vision("mobilenet_v2"), lambda **d: torch.randn(1, 3, 224, 224)),
        "minilm_l6": (lambda: bert(6, 384, 12, 1536), lambda **d: torch.randint(0, 30000, (1, max(d.values(), default=128)))),
        "bert_base": (lambda: bert(12, 768, 12, 3072), lambda **d: torch.randint(0, 30000, (1, max(d.values(), default=128)))),
        "gpt2": (gpt2, lambda **d: torch.randint(0, 50000, (1, max(d.values(), default=1))))}


def net(name, dims):
    """A replay of a graph of the whole net: launches cost next to nothing."""
    make, draw = NETS[name]
    module = make().eval().cuda()
    x = draw(**{key: int(n) for key, n in (d.split("=") for d in dims)}).cuda()
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            module(x)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            module(x)
    return graph.replay


def work_of(kind, dtype, extents, name):
    if kind == "net":
        return net(name, extents)

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


def median_ns(work, seconds=0.15):
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
for case in json.load(open(sys.argv[1])):
    if sys.argv[2] == "tf32" and case["dtype"] != "f32":
        continue  # the same kernels again
    if time.monotonic() - BEGAN > float(sys.argv[3]):
        print(f"no time left for {case['name']}", file=sys.stderr)
        continue
    try:
        work = work_of(case["kind"], case["dtype"], case["extents"], case["name"])
        answers[case["name"]] = statistics.mean(median_ns(work) for _ in range(2))
    except Exception as error:
        print(f"{case}: {error}", file=sys.stderr)
print(json.dumps(answers))
