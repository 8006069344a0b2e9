"""Operators whose code would need a stack frame above the limit are compiled otherwise, for every family, and still right."""
import onnx_file
from tool_test import main

NAMES = 640


def crowd():
    """All names are alive at once: a sum that forgets goes over them forwards, then backwards."""
    lines = ["domain example", "op Crowd@1<T: float>(x: T[n]) -> y: T[n]", "  proc {", "    for n {"]
    lines += [f"      var a{k} = sqrt(abs(x[n] + T({k})) + T(1))" for k in range(NAMES)]
    lines += ["      var s = T(0)"]
    lines += [f"      s = s*T(0.75) + a{k}" for k in [*range(NAMES), *reversed(range(NAMES))]]
    return "\n".join(lines + ["      y[n] = s } }", ""])


def a_frame_that_is_too_large_is_avoided(tools):
    (tools.dir / "ops").mkdir()
    (tools.dir / "ops/crowd.mlop").write_text(crowd())
    ports = [onnx_file.port("x", "f64", ["n"])], [onnx_file.port("y", "f64", ["n"])]
    node = onnx_file.node("Crowd", ["x"], ["y"], "crowd", "example")
    (tools.dir / "m.onnx").write_bytes(onnx_file.model([node], *ports, domains=["example"]))
    build = ["build", "m.onnx", "--ops", "ops", "--progress", "none", "--target"]
    tools.run("mlpack", *build, "x86-64-v2,armv8-a,rv64gc,native", "-o", "m.mlc")
    tools.run("mlpack", "verify", "m.mlc", "--deep")
    checked = tools.run("mlrun", "selftest", "m.mlc").stdout
    assert checked.count("ok ") >= 2, checked
    for again in ("a.mlc", "b.mlc"):
        tools.run("mlpack", *build, "armv8-a", "--no-sign", "-o", again)
    assert (tools.dir / "a.mlc").read_bytes() == (tools.dir / "b.mlc").read_bytes()


if __name__ == "__main__":
    main([a_frame_that_is_too_large_is_avoided])
