"""A model on a device of NVIDIA, from mlpack to an answer, on the libcuda of the tests (tests/support/fakecuda). Wants its
folder in MLC_FAKE_CUDA_FOLDER."""
import json
import os
import re
import shutil
import struct

from gpu_test import square
from onnx_file import model, node, port, tensor
from together_model import MODES, answers, build, explained, inputs, pretend, same
from tool_test import Skipped, main


def built(t, *targets, cubins="none"):
    w = tensor("w", "f32", [24, 40], struct.pack("<960f", *(0.01 * k for k in range(960))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["z"], "product"), node("Softmax", ["z"], ["y"], "rows")],
                                         [port("x", "f32", ["n", 24])], [port("y", "f32", None)], [w], opset=17))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--target", ",".join(targets), "--cubin", cubins)
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]


def every_variant_of_a_device_gives_the_right_answer(t):
    built(t, "cuda", "native")
    done = t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned", "--devices", "gpu")
    for name in ("cuda-sm75", "cuda-sm80", "cuda-sm90"):
        assert re.search(rf"ok\s+{name}\s", done.stdout + done.stderr), done.stdout + done.stderr


def a_device_that_is_named_and_not_tested_is_a_failure(t):
    built(t, "cuda-sm90", "native")
    for devices, code in (("gpu", 5), ("gpu0,cpu", 5), ("auto", 0), ("cpu", 0)):
        t.env["MLC_FAKE_CUDA"] = "cc=75"
        done = t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned", "--devices", devices, code=code)
        assert ("no variant was tested on the devices" in done.stderr) == (code == 5) and re.search(r"skip\s+cuda-sm90\s", done.stdout) and re.search(r"ok\s+portable\s", done.stdout), done
        t.env["MLC_FAKE_CUDA"] = "cc=90"
        t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned", "--devices", devices)
    t.env["MLC_FAKE_CUDA"] = "cc=75"
    refused = t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned", "--variant", "cuda-sm90", code=5).stderr
    assert "no variant could be tested here" in refused, refused


def factors_are_rounded_to_tf32_where_tensor_cores_multiply_and_nowhere_else(t):
    w = tensor("w", "f32", [64, 64], struct.pack("<4096f", *((-1) ** (k // 7) * (1 + k % 97 / 8192) for k in range(4096))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["y"], "product")], [port("x", "f32", [64, 64])], [port("y", "f32", [64, 64])], [w], opset=17))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--target", "cuda,native", "--cubin", "none", "--precision", "tf32")
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    tested = json.loads(t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned", "--devices", "gpu", "--json").stdout)
    for v in tested["variants"]:
        assert (1e-5 < v["max_rel"] < 3e-3) if v["name"] in ("cuda-sm80", "cuda-sm90") else v["max_rel"] < 1e-5, tested
    assert {"cuda-sm75", "cuda-sm80", "cuda-sm90", "portable"} <= {v["name"] for v in tested["variants"]}, tested


def products_of_f16_stay_so_on_tensor_cores(t):
    """Factors and weights in f16, as a model in f16 has them: processors widen such weights for themselves alone."""
    w = tensor("w", "f16", [64, 64], struct.pack("<4096e", *((-1) ** (k // 7) * (1 + k % 97 / 1024) for k in range(4096))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["y"], "product")], [port("x", "f16", [64, 64])], [port("y", "f16", [64, 64])], [w], opset=17))
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--target", "cuda-sm90,native", "--cubin", "none", "--dump", "schedule")
    assert "instr mma.f16" in done.stdout + done.stderr, done.stdout + done.stderr
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned", "--devices", "gpu")


def groups_of_warps_multiply_where_the_device_and_its_driver_are_of_their_target(t):
    """cuda-sm90a is for one capability, and its text for drivers of CUDA 12.4 on; others take the file's next variant."""
    # A tile of 64 x 64 for each of 132 multiprocessors, and a depth that is worth them.
    w = tensor("w", "f16", [128, 768], struct.pack("<98304e", *((-1) ** (k // 7) * (1 + k % 97 / 1024) for k in range(98304))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["y"], "product")], [port("x", "f16", [768, 128])], [port("y", "f16", [768, 768])], [w], opset=17))
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--target", "cuda-sm90,cuda-sm90a,native", "--cubin", "none", "--dump", "schedule")
    assert "instr wgmma.f16" in done.stdout + done.stderr, done.stdout + done.stderr
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    for device, chosen in (("cc=90 driver=12040", "cuda-sm90a"), ("cc=90 driver=12030", "cuda-sm90"), ("cc=100 driver=13000", "cuda-sm90")):
        t.env["MLC_FAKE_CUDA"] = device
        assert t.json("mlrun", "explain", "m.mlc", "--allow-unsigned", "--devices", "gpu")["chosen"] == chosen, device
        tested = t.json("mlrun", "selftest", "m.mlc", "--allow-unsigned", "--devices", "gpu")
        told = {v["name"]: v["answer"] for v in tested["variants"]}
        assert told["cuda-sm90"] == "ok" and told["cuda-sm90a"] == ("ok" if chosen == "cuda-sm90a" else "skip"), (device, tested)


def products_that_a_build_rounds_to_f16_are_so_on_tensor_cores(t):
    w = tensor("w", "f32", [64, 64], struct.pack("<4096f", *((-1) ** (k // 7) * (1 + k % 97 / 8192) for k in range(4096))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["y"], "product")], [port("x", "f32", [64, 64])], [port("y", "f32", [64, 64])], [w], opset=17))
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--target", "cuda-sm80,native", "--cubin", "none", "--precision", "f16", "--dump", "schedule")
    assert "instr mma.f16" in done.stdout + done.stderr, done.stdout + done.stderr
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned", "--devices", "gpu")


def attention_that_a_build_rounds_is_so_on_tensor_cores(t):
    """Beside a target with tiles for bf16, which keeps its attention in f32 there: both are cut alike."""
    weights = [tensor(f"w{n}", "f32", [64, 64], struct.pack("<4096f", *((-1) ** ((k + len(n)) // 7) * (1 + k * 5 % 97 / 97) / 64 for k in range(4096)))) for n in "qkv"]
    weights += [tensor("split", "i64", [4], struct.pack("<4q", 1, 64, 2, 32)), tensor("scale", "f32", [], struct.pack("<f", 0.1))]
    nodes = [node("MatMul", ["x", "w" + n], [n + "0"]) for n in "qkv"] + [node("Reshape", [n + "0", "split"], [n + "1"]) for n in "qkv"]
    nodes += [node("Transpose", [n + "1"], [n], perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]) for n in "qkv"]
    nodes += [node("MatMul", ["q", "k"], ["s"]), node("Mul", ["s", "scale"], ["m"]), node("Softmax", ["m"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"], "mixed")]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", [1, 64, 64])], [port("y", "f32", [1, 2, 64, 32])], weights, opset=17))
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    for precision, factors in ("f16", "f16"), ("bf16", "bf16"), ("tf32", "f32"):
        done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--target", "cuda-sm80,x86-64-v4+amx", "--cubin", "none", "--precision", precision, "--dump", "schedule")
        said = done.stdout + done.stderr
        assert any(line.startswith("attention ") and f"instr mma.{factors}" in line for line in said.splitlines()), said
        tested = json.loads(t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned", "--devices", "gpu", "--json").stdout)
        assert all(1e-6 < v["max_rel"] < 3e-2 for v in tested["variants"] if v["name"] == "cuda-sm80"), tested


def a_variant_fits_on_devices_that_are_new_enough(t):
    built(t, "cuda", "native")
    t.env["MLC_FAKE_CUDA"] = "cc=80"
    explained = json.loads(t.run("mlrun", "explain", "m.mlc", "--allow-unsigned", "--devices", "gpu", "--json").stdout)
    answers = {v["name"]: v["answer"] for v in explained["variants"]}
    assert [answers[f"cuda-sm{n}"] for n in (75, 80, 90)] == ["fits", "fits", "no"], answers


def recordings_are_graphs_and_a_driver_that_makes_none_is_named(t):
    built(t, "cuda-sm80", "native")
    options = ["m.mlc", "--allow-unsigned", "--devices", "gpu", "--require", "cuda"]
    run = [*options, "--dim", "n=2", "--duration", "20ms", "--warmup", "0ms"]
    told = "enqueued command by command"
    done = t.run("mlrun", "bench", *run)
    assert told not in done.stderr, done.stderr
    t.env["MLC_FAKE_CUDA"] = "fail_cuGraphLaunch=801"
    done = t.run("mlrun", "bench", *run)
    assert done.stderr.count(told) == 1 and "CUDA_ERROR_NOT_SUPPORTED" in done.stderr, done.stderr
    del t.env["MLC_FAKE_CUDA"]
    who = "gpu0, Fake 90, cuda (CUDA 13.0, graphs), 1024 MiB"
    assert who in t.run("mlrun", "explain", "m.mlc", "--allow-unsigned", "--devices", "gpu").stdout
    profiled = t.run("mlrun", "profile", *run)
    assert re.search(rf"^device +{re.escape(who)};", profiled.stdout, re.M), profiled.stdout
    profiled = json.loads(t.run("mlrun", "profile", *run, "--json").stdout)
    assert profiled["device"] == who and profiled["ceilings"] is None, profiled
    assert all(l["roof"] is None and l["bound"] is None and 0 < l["min_ns"] for l in profiled["launches"]), profiled


def cubins_are_taken_first_and_a_driver_that_takes_none_is_named(t):
    if not (shutil.which("ptxas") or os.access("/usr/local/cuda/bin/ptxas", os.X_OK)):
        raise Skipped("no ptxas")
    built(t, "cuda-sm80", "native", cubins="80,86")
    t.env["MLC_FAKE_CUDA"] = "cc=86"  # it runs no cubins
    done = t.run("mlrun", "bench", "m.mlc", "--allow-unsigned", "--devices", "gpu", "--require", "cuda", "--dim", "n=2", "--duration", "20ms", "--warmup", "0ms")
    assert "does not take their cubins for sm_86" in done.stderr, done.stderr
    for line in (t.run("mlpack", "build", "m.onnx", "-o", "n.mlc", "--no-sign", "-f", "--target", "cuda-sm80,native", "--cubin", "80").stdout,):
        assert re.search(r"^  cubins    cuda-sm80 for 80: at most \d+ registers, no spill$", line, re.M), line


def cubins_are_asked_for_by_their_names(t):
    (t.dir / "m.onnx").write_bytes(model([node("Relu", ["x"], ["y"], "relu")], [port("x", "f32", ["n"])], [port("y", "f32", None)], opset=17))
    for wrong in ("sm_80", "74", "auto,80", "", "80,x"):
        assert "--cubin" in t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "cuda-sm80", "--cubin", wrong, code=2).stderr, wrong
    if os.access("/usr/local/cuda/bin/ptxas", os.X_OK):
        raise Skipped("the assembler is there without PATH")
    t.env["PATH"] = "/bin"
    assert "no ptxas" in t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "--target", "cuda-sm80,native", "--cubin", "80", code=3).stderr
    assert "none: no ptxas" in t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "--target", "cuda-sm80,native").stdout


def without_a_device_the_processor_runs_it(t):
    built(t, "cuda-sm75", "native")
    t.env["MLC_FAKE_CUDA"] = "init=100"
    explained = t.run("mlrun", "explain", "m.mlc", "--allow-unsigned")
    assert "CUDA_ERROR_NO_DEVICE" in explained.stdout + explained.stderr, explained.stdout
    t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned")


def cards(t):
    return json.loads(t.run("mlrun", "probe", "--json").stdout)["devices"]


def a_card_is_one_device_however_it_is_reached(t):
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    apart = cards(t)
    by_cuda = [d for d in apart if [by["api"] for by in d["drivers"]] == ["cuda"]]
    assert [d["title"] for d in by_cuda] == ["Fake 90"] and by_cuda[0]["identity"] == "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf", apart
    assert by_cuda[0]["drivers"][0]["facts"]["cuda.cc"] == 90, by_cuda
    text = t.run("mlrun", "probe").stdout
    assert re.search(r"^device +Fake 90, \d+ MiB, UUID a0a1\w+\ndriver +cuda, CUDA 13\.0, graphs$", text, re.M), text
    t.env["MLC_FAKE_CUDA"] = "init=100"
    missing = t.run("mlrun", "probe").stdout
    assert "none by cuda" in missing and "CUDA_ERROR_NO_DEVICE" in missing, missing
    by_vulkan = [d for d in apart if any(by["api"] == "vulkan" for by in d["drivers"])]
    if not by_vulkan:
        return
    # The same card by both: as if the first device of Vulkan were NVIDIA's.
    t.env["MLC_FAKE_CUDA"] = f"uuid={by_vulkan[0]['identity']}"
    together = cards(t)
    assert len(together) == len(apart) - 1, together
    one = next(d for d in together if d["identity"] == by_vulkan[0]["identity"])
    assert [by["api"] for by in one["drivers"]] == ["cuda", "vulkan"], one
    built(t, "cuda-sm75", "vulkan", "native")
    explained = json.loads(t.run("mlrun", "explain", "m.mlc", "--allow-unsigned", "--devices", "gpu0", "--json").stdout)
    assert [(d["name"], d["api"]) for d in explained["devices"]][:1] == [("gpu0", "cuda")], explained["devices"]
    assert len({d["name"] for d in explained["devices"]}) == len(explained["devices"]) - 1, explained["devices"]


def arrays_of_the_application_stay_on_the_device(t):
    square(t, "cuda-sm80,native")
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    t.run("device_arrays", "s.mlc", t.bin / "mlrun", "cuda")


def lines_about(done, device):
    return [line for line in done.stderr.splitlines() if "warning" in line and device in line]


def every_mode_goes_on_where_the_device_fails(t):
    build(t, "cuda-sm80,native")
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    inputs(t, 12)
    _, expected = answers(t, "--devices", "cpu")
    together = ("--devices", "cpu,gpu0", "--objective")
    for mode, (objective, ns) in MODES.items():
        t.env["MLC_FAKE_CUDA"] = ""
        explained(t, objective)
        pretend(t, ns)
        assert {stage["mode"] for stage in explained(t, objective)["stages"]} == {mode}, mode
        for what in ("fail_launch", "fail_allocation"):
            for moment in (1, 2, 4, 7):
                t.env["MLC_FAKE_CUDA"] = f"{what}={moment}"
                _, found = answers(t, *together, objective)
                same(expected, found, (mode, what, moment))
        t.env["MLC_FAKE_CUDA"] = "fail_launch=3"
        for seconds in (1, 5, 25):  # a busy machine may reach few launches in one
            done = t.run("mlrun", "bench", "m.mlc", "-i", "in.npz", *together, objective, "--sessions", "3", "--duration", f"{seconds}s", "--warmup", "50ms")
            if lines_about(done, "gpu0"):
                break
        # With "throughput" sessions share the device, and one of them says that it is lost. Else each has its own way to it.
        assert len(lines_about(done, "gpu0")) == 1 or objective != "throughput", (mode, done.stderr)


def sessions_of_a_bench_fall_back_like_the_first(t):
    built(t, "cuda-sm80", "native")
    for failure in ("fail_launch=5", "fail_allocation=9", "memory=4096"):
        t.env["MLC_FAKE_CUDA"] = failure
        done = t.run("mlrun", "bench", "m.mlc", "--allow-unsigned", "--devices", "gpu", "--sessions", "3", "--duration", "200ms", "--warmup", "50ms")
        assert "warning" in done.stderr, (failure, done.stderr)


if __name__ == "__main__":
    main([every_mode_goes_on_where_the_device_fails, sessions_of_a_bench_fall_back_like_the_first, arrays_of_the_application_stay_on_the_device, a_card_is_one_device_however_it_is_reached, every_variant_of_a_device_gives_the_right_answer, a_device_that_is_named_and_not_tested_is_a_failure, factors_are_rounded_to_tf32_where_tensor_cores_multiply_and_nowhere_else, products_of_f16_stay_so_on_tensor_cores, groups_of_warps_multiply_where_the_device_and_its_driver_are_of_their_target, products_that_a_build_rounds_to_f16_are_so_on_tensor_cores, attention_that_a_build_rounds_is_so_on_tensor_cores, recordings_are_graphs_and_a_driver_that_makes_none_is_named, cubins_are_taken_first_and_a_driver_that_takes_none_is_named,
          cubins_are_asked_for_by_their_names, a_variant_fits_on_devices_that_are_new_enough, without_a_device_the_processor_runs_it])
