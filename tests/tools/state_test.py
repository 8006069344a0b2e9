"""mlpack build --state: what a session keeps between runs, as a C++ program uses it."""
import struct

import onnx_file
from tool_test import main


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def cell(t, nodes, states, more_inputs=()):
    """y = h' [1, 4]; the states are f32 [1, 4] each, named s0, s1, ... and becoming n0, n1, ..."""
    inputs = [onnx_file.port("x", "f32", [1, 4]), *more_inputs] + [onnx_file.port(f"s{k}", "f32", [1, 4]) for k in range(states)]
    outputs = [onnx_file.port("y", "f32", [1, 4])] + [onnx_file.port(f"n{k}", "f32", [1, 4]) for k in range(states)]
    half = onnx_file.tensor("half", "f32", [], floats([0.5]))
    (t.dir / "cell.onnx").write_bytes(onnx_file.model(nodes, inputs, outputs, [half]))


def decaying_sum():
    """n0 = s0 / 2 + x, y = n0 + s0."""
    n = onnx_file.node
    return [n("Mul", ["s0", "half"], ["d"]), n("Add", ["d", "x"], ["n0"]), n("Add", ["n0", "s0"], ["y"])]


STEPS = [[1, 2, -3, 4], [0.5, 0, 1, 8], [-4, 1, 1, 1], [2, 2, 2, 2], [0, 0, 0, 16]]


def answers_of_sum():
    state, answers = [0.0] * 4, []
    for x in STEPS:
        new = [s / 2 + v for s, v in zip(state, x)]
        answers.append([n + s for n, s in zip(new, state)])
        state = new
    return answers


def run(t, variant, *more):
    (t.dir / "in.bin").write_bytes(b"".join(floats(x) for x in STEPS))
    t.run("run_steps", "cell.mlc", variant, "in.bin", "out.bin", "x", 1, 4, *more)
    done = (t.dir / "out.bin").read_bytes()
    assert len(done) == 16 * len(STEPS), len(done)
    return [list(struct.unpack_from("<4f", done, 16 * k)) for k in range(len(STEPS))]


def built(t, *more):
    return t.json("mlpack", "build", "cell.onnx", "-o", "cell.mlc", "--target", "native", *more)


def native(t):
    return next(v["name"] for v in t.json("mlpack", "inspect", "cell.mlc")["variants"] if v["name"] != "portable")


def a_state_is_zero_first_and_then_what_it_became(t):
    cell(t, decaying_sum(), 1)
    built(t, "--state", "s0=n0")
    for variant in (native(t), "portable"):
        assert run(t, variant) == answers_of_sum(), variant
    program, = t.json("mlpack", "inspect", "cell.mlc")["programs"]
    names = {kind: [port["name"] for port in program[kind]] for kind in ("inputs", "outputs", "state")}
    assert names == {"inputs": ["x"], "outputs": ["y"], "state": ["s0"]}, names
    checked = [line.split() for line in t.run("mlpack", "check", "cell.onnx", "--state", "s0=n0").stdout.splitlines()]
    assert ["state", "s0", "f32[1,4]"] in checked and not any(line[:2] in (["input", "s0"], ["output", "n0"]) for line in checked), checked
    said = t.run("mlpack", "inspect", "cell.mlc").stdout
    assert any(line.split() == ["state", "s0", "f32[1,4]"] for line in said.splitlines()), said


def a_state_is_saved_and_another_session_goes_on(t):
    cell(t, decaying_sum(), 1)
    built(t, "--state", "s0=n0")
    for variant in (native(t), "portable"):
        for at in (0, 1, 3):
            assert run(t, variant, "--save-at", str(at)) == answers_of_sum(), (variant, at)


def states_move_along_a_line_and_change_places(t):
    """A shift register of three values, in an order in which each copy would overwrite the next one's source; then two that change places."""
    n = onnx_file.node
    nodes = [n("Identity", ["s1"], ["n2"]), n("Identity", ["s0"], ["n1"]), n("Identity", ["x"], ["n0"]), n("Add", ["s2", "x"], ["y"])]
    cell(t, nodes, 3)
    built(t, "--state", "s*=n*")
    wanted = [[(STEPS[k - 3][i] if k >= 3 else 0) + STEPS[k][i] for i in range(4)] for k in range(len(STEPS))]
    for variant in (native(t), "portable"):
        assert run(t, variant) == wanted, variant
    nodes = [n("Add", ["s1", "x"], ["n0"]), n("Identity", ["s0"], ["n1"]), n("Add", ["s0", "half"], ["y"])]
    cell(t, nodes, 2)
    built(t, "--state", "s*=n*")
    a, b, wanted = [0.0] * 4, [0.0] * 4, []
    for x in STEPS:
        wanted.append([v + 0.5 for v in a])
        a, b = [p + q for p, q in zip(b, x)], a
    for variant in (native(t), "portable"):
        assert run(t, variant) == wanted, variant


def a_model_that_branches_keeps_states_as_well(t):
    """The run decides which branch is taken: n0 = x > 0 ? s0 + x : s0 / 2, of a sum over x."""
    n = onnx_file.node
    yes = onnx_file.data(1, n("Add", ["s0", "x"], ["up"])) + onnx_file.data(2, "yes") + onnx_file.data(12, onnx_file.port("up", "f32", [1, 4]))
    no = onnx_file.data(1, n("Mul", ["s0", "half"], ["down"])) + onnx_file.data(2, "no") + onnx_file.data(12, onnx_file.port("down", "f32", [1, 4]))
    branch = n("If", ["positive"], ["n0"])
    for name, graph in (("then_branch", yes), ("else_branch", no)):
        branch += onnx_file.data(5, onnx_file.data(1, name) + onnx_file.data(6, graph) + onnx_file.number(20, 5))
    zero = onnx_file.node("Sub", ["half", "half"], ["zero"])
    nodes = [n("ReduceSum", ["x"], ["sum"], keepdims=0), zero, n("Greater", ["sum", "zero"], ["positive"]), branch, n("Add", ["n0", "x"], ["y"])]
    cell(t, nodes, 1)
    built(t, "--state", "s0=n0")
    state, wanted = [0.0] * 4, []
    for x in STEPS:
        state = [s + v for s, v in zip(state, x)] if sum(x) > 0 else [s / 2 for s in state]
        wanted.append([s + v for s, v in zip(state, x)])
    for variant in (native(t), "portable"):
        assert run(t, variant) == wanted, variant
        assert run(t, variant, "--save-at", "2") == wanted, variant


def more_targets_keep_the_states(t):
    cell(t, decaying_sum(), 1)
    t.json("mlpack", "build", "cell.onnx", "-o", "first.mlc", "--target", "armv8-a", "--state", "s0=n0")
    t.json("mlpack", "add", "first.mlc", "--target", "native", "-o", "cell.mlc")
    names = [v["name"] for v in t.json("mlpack", "inspect", "cell.mlc")["variants"]]
    variant = next(name for name in names if name not in ("portable", "armv8-a"))
    assert run(t, variant) == answers_of_sum()


def refused(t, *command):
    """The sentence."""
    return t.run(*command, code=2).stderr


def what_is_no_state_is_refused(t):
    cell(t, decaying_sum(), 1)
    for given, sentence in (("s1=n0", "the model has no input 's1'"), ("s0=n7", "the model has no output 'n7'"), ("s0", "'s0' is not INPUT=OUTPUT"),
                            ("s0=n*", "the output has more '*' than the input"), ("=n0", "is not INPUT=OUTPUT")):
        said = refused(t, "mlpack", "build", "cell.onnx", "-o", "no.mlc", "--target", "native", "--state", given)
        assert sentence in said, said
        assert not (t.dir / "no.mlc").exists()
    said = refused(t, "mlpack", "build", "cell.onnx", "-o", "no.mlc", "--target", "native", "--state", "s0=n0", "--state", "s0=y")
    assert "named twice" in said, said
    inputs = [onnx_file.port("x", "f32", ["N", 4]), onnx_file.port("s", "f32", ["N", 4])]
    nodes = [onnx_file.node("Add", ["x", "s"], ["n"]), onnx_file.node("Relu", ["n"], ["y"])]
    (t.dir / "free.onnx").write_bytes(onnx_file.model(nodes, inputs, [onnx_file.port("y", "f32", ["N", 4]), onnx_file.port("n", "f32", ["N", 4])]))
    said = refused(t, "mlpack", "build", "free.onnx", "-o", "no.mlc", "--target", "native", "--state", "s=n")
    assert "the extent N is free" in said and "--dim N=VALUE" in said, said
    said = refused(t, "mlpack", "check", "free.onnx", "--state", "s=n")
    assert "the extent N is free" in said, said
    said = refused(t, "mlpack", "build", "free.onnx", "-o", "no.mlc", "--target", "native", "--dim", "N=2", "--state", "s=n", "--state", "x=y")
    assert "all outputs are states" in said, said


if __name__ == "__main__":
    main([a_state_is_zero_first_and_then_what_it_became, a_state_is_saved_and_another_session_goes_on, states_move_along_a_line_and_change_places,
          a_model_that_branches_keeps_states_as_well, more_targets_keep_the_states, what_is_no_state_is_refused])
