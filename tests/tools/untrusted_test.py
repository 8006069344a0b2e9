"""What mlrun does with a stranger's file by default: it ends within its limits, whatever the file says (spec/untrusted.md).

The bounds on the clock are wide, so that they hold on a machine that does other things too; what they tell apart is a run
that ends from one that does not.
"""
import json
import os
import struct
import subprocess

from tool_test import main

SANITIZED = "MLC_SANITIZED" in os.environ
NONE = 0xFFFF
CONST, WHILE_BEGIN, WHILE_TEST, WHILE_END = 10, 3, 4, 5
I64, MASK = 2, 5


def instruction(op, dst=NONE, a=NONE, b=NONE, c=NONE, imm=0):
    return struct.pack("<BBHHHHHIq", op, 0, dst, a, b, c, 0, 0, imm)


def module(code, registers, params):
    """A portable module of one kernel, spec/portable-code.md."""
    def padded(data):
        return data + bytes(-len(data) % 8)
    kernel = struct.pack("<HHHHII", len(params), 0, 0, len(registers), len(code), 0)
    kernel += padded(bytes(params)) + padded(b"".join(struct.pack("<BB", *r) for r in registers)) + b"".join(code)
    return struct.pack("<IHHII", 0x50434C4D, 1, 0, 1, 0) + kernel


def spinning(jumps):
    return module([instruction(CONST, 0, imm=jumps), instruction(CONST, 2, imm=1), instruction(WHILE_BEGIN, 1, 0),
                   instruction(WHILE_TEST, a=2), instruction(WHILE_END)], [(I64, 1), (I64, 1), (MASK, 1)], [1])


KERNEL = """plan function "main" {
  $0 = const 1 $1 = const 64 $2 = const 0
  buffer #0 u8 bytes $0 input 0 buffer #1 u8 bytes $1 output 0
  input "x" u8 [$0] #0 output "y" u8 [$1] #1 arena $2
  %s
}"""
PROGRAM = """plan function "main" {
  $0 = const 1
  input "x" u8 [$0] %0
  %1 = loop "main/body" carried 1 (-, -, %0)
  output "y" u8 rank 1 %1
}
function "main/body" {
  $0 = const 1
  input "i" i64 [] %0 input "c" bool [] %1 input "x" u8 [$0] %2
  output "c" bool rank 0 %1 output "x" u8 rank 1 %2
}"""
DECODER = """plan function "main" {
  $0 = dim 0 0
  input "x" u8 [$0] %0
  %1 = host "image.decode" "RGB" u8 [-1, -1, 3] (%0)
  output "y" u8 rank 3 %1
}"""


def container(tools, plan, code=None, *flags):
    (tools.dir / "plan.txt").write_text(plan)
    if code is not None:
        (tools.dir / "code.bin").write_bytes(code)
        flags = ("--module", "code.bin", *flags)
    tools.run("plan_container", "file.mlc", "plan.txt", *flags)


def filled(tools, length):
    """A container whose answer is so many sevens, which are copies of a constant of at most 4 MiB."""
    piece = min(length, 4 << 20)
    assert length % piece == 0
    parts = range(length // piece)
    (tools.dir / "sevens.bin").write_bytes(bytes([7]) * piece)
    plan = (f'plan function "main" {{ $0 = const 1 $1 = const {length} $2 = const 0 $3 = const {piece} '
            + "".join(f"${4 + k} = const {k * piece} " for k in parts)
            + "buffer #0 u8 bytes $0 input 0 buffer #1 u8 bytes $1 output 0 buffer #2 u8 bytes $3 constant 0 copy 0 "
            + "".join(f"buffer #{3 + k} u8 bytes $3 output 0 at ${4 + k} " for k in parts)
            + 'input "x" u8 [$0] #0 output "y" u8 [$1] #1 arena $2 ' + "".join(f"copy (#{3 + k}, #2) " for k in parts) + "}")
    return plan, None, "--weights", "sevens.bin"


def measured(tools, *args):
    """Exit code, stderr, seconds of processor time and bytes of memory of `mlrun file.mlc` and its child."""
    with open(tools.dir / "stderr", "wb") as errors:
        process = subprocess.Popen([tools.bin / "mlrun", "file.mlc", *args], cwd=tools.dir, env=tools.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, (tools.dir / "stderr").read_text(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10


def ends(tools, code, what, args=("-i", "zeros"), seconds=6.0):
    found, text, took, memory = measured(tools, *args)
    assert found == code and what in text, (found, text)
    assert took < (10 if SANITIZED else 1) * seconds, f"{took} s: {text}"
    assert memory < 300e6 or SANITIZED, f"{memory} bytes: {text}"
    return text


def a_kernel_or_program_without_end_is_ended(tools):
    container(tools, KERNEL % "launch 0 (#1) () tiles $0", spinning(2**62))
    text = ends(tools, 8, "error[E6004]: the run took longer than its time limit of 1500 ms")
    assert "used: 1" in text and "--time-limit" in text, text
    ends(tools, 8, "limit of 100 ms", ("-i", "zeros", "--time-limit", "100ms"))
    container(tools, KERNEL % ("launch 0 (#1) () tiles $1\n" * 3000), spinning(2**34))
    ends(tools, 8, "E6004")
    container(tools, PROGRAM)
    ends(tools, 8, "E6004")
    ends(tools, 8, "limit of 50 ms", ("-i", "zeros", "--time-limit", "50ms"))


def every_command_that_runs_has_the_limits(tools):
    container(tools, PROGRAM)
    tools.run("mlrun", "bench", "file.mlc", "--time-limit", "50ms", code=8)
    tools.run("mlrun", "selftest", "file.mlc", "--time-limit", "50ms", code=8)
    for bad in ("0s", "5", "-1s", "soon"):
        tools.run("mlrun", "file.mlc", "-i", "zeros", "--time-limit", bad, code=2)
    for bad in ("0", "1T", "-1", "all"):
        tools.run("mlrun", "file.mlc", "-i", "zeros", "--memory-limit", bad, code=2)


def outputs_larger_than_the_limit_are_refused_and_others_are_not_copied(tools):
    container(tools, *filled(tools, 6 << 30))
    text = ends(tools, 7, "error[E6006]: output of 6442450944 bytes")
    assert "--memory-limit" in text, text
    container(tools, *filled(tools, 180 << 20))
    patient = ("-i", "zeros", "--time-limit", "none")  # writing so many pages takes long where the machine is busy
    ends(tools, 0, "portable", patient, seconds=60)  # and shown, with its smallest and largest element
    ends(tools, 7, "E6006", ("-i", "zeros", "--memory-limit", "100M"))
    container(tools, *filled(tools, 260 << 20))
    ends(tools, 7, "E6006")
    assert measured(tools, *patient, "--memory-limit", "400M")[0] == 0
    assert measured(tools, *patient, "--memory-limit", "none")[0] == 0


def services_are_for_the_trusted_and_for_whom_the_user_names(tools):
    (tools.dir / "picture.ppm").write_bytes(b"P6 1 1 255\nabc")
    container(tools, DECODER, None, "--feature", "app.image.decode")
    text = ends(tools, 5, "lacks app.image.decode (a file that nobody trusts gets it only if it is allowed to)", ("-i", "picture.ppm"))
    assert "help: mlrun --allow-service image.decode, or untrusted_services" in text, text
    tools.run("mlrun", "file.mlc", "-i", "picture.ppm", "--allow-service", "image.decode")
    tools.run("mlrun", "file.mlc", "-i", "picture.ppm", "--allow-service", "everything", code=2)
    tools.run("mlrun", "explain", "file.mlc", code=5)
    tools.run("mlrun", "explain", "file.mlc", "--allow-service", "image.decode")
    container(tools, DECODER)  # declares nothing
    text = ends(tools, 5, "does not declare", ("-i", "picture.ppm", "--allow-service", "image.decode"))


def what_is_wrong_with_the_file_is_the_files_mistake(tools):
    for text in ("{", '{"mlc_pipeline": 1, "steps": 3}'):
        (tools.dir / "pipeline.json").write_text(text)
        container(tools, *filled(tools, 64), "--pipeline", "pipeline.json")
        ends(tools, 4, "the pipeline in the container: ", ("-i", "picture.ppm"))
    # Kernel 0 jumps more often than it says it may: a rule of portable code. An index outside of an array may come from values.
    bounded = module([instruction(CONST, 0, imm=5), instruction(CONST, 2, imm=1), instruction(WHILE_BEGIN, 1, 0),
                      instruction(WHILE_TEST, a=2), instruction(WHILE_END)], [(I64, 1), (I64, 1), (MASK, 1)], [1])
    container(tools, KERNEL % "launch 0 (#1) () tiles $0", bounded)
    ends(tools, 4, "a loop exceeded its bound")


def what_a_pipeline_decodes_and_answers_is_bounded(tools):
    side = 1200
    (tools.dir / "photo.ppm").write_bytes(b"P6 %d %d 255\n" % (side, side) + bytes(3 * side * side))

    def pipeline(count, background=False):
        """`count` steps that decode the picture, each with another background or all alike."""
        names = [f"d{k}" for k in range(count)]
        alpha = [{"alpha": f"over #0000{k:02}"} if background else {"alpha": "drop"} for k in range(count)]
        steps = [{"op": "decode_image", "in": "photo", "color": "rgb", "orient": "ignore", "out": name, **a} for name, a in zip(names, alpha)]
        steps.append({"op": "run", "program": "main", "in": {f"i{k}": name for k, name in enumerate(names)}, "out": {"y": "y"}})
        write(steps, ["y"])
        dims = "".join(f"${3 * k + a} = dim {k} {a} " for k in range(count) for a in range(3))
        last = 3 * count
        buffers = "".join(f"buffer #{k} u8 bytes ${last + 1} input {k} " for k in range(count))
        inputs = "".join(f'input "{name}" u8 [${3 * k}, ${3 * k + 1}, ${3 * k + 2}] #{k} ' for k, name in enumerate(names))
        return (f'plan function "main" {{ {dims} ${last} = const 64 ${last + 1} = const 0 {buffers} buffer #{count} u8 bytes ${last} output 0 '
                f'{inputs} output "y" u8 [${last}] #{count} arena ${last + 1} copy (#{count}, #{count}) }}')

    def write(steps, outputs):
        (tools.dir / "pipeline.json").write_text(json.dumps(
            {"mlc_pipeline": 1, "pipelines": {"main": {"inputs": {"photo": {"accept": ["image/x-portable-anymap"]}}, "steps": steps, "outputs": outputs}}}))

    def best(rows, columns, steps, k):
        """Classes of scores that are all alike."""
        names = [f"c{n}" for n in range(steps)]
        write([{"op": "decode_image", "in": "photo", "color": "rgb", "orient": "ignore", "alpha": "drop", "out": "d0"},
               {"op": "run", "program": "main", "in": {"i0": "d0"}, "out": {"y": "y"}},
               *({"op": "top_k", "in": "y", "k": k, "out": name} for name in names)], names)
        return (f'plan function "main" {{ $0 = dim 0 0 $1 = dim 0 1 $2 = dim 0 2 $3 = const {rows} $4 = const {columns} $5 = const {4 * rows * columns} $6 = const 0 '
                f'buffer #0 u8 bytes $6 input 0 buffer #1 f32 bytes $5 output 0 input "d0" u8 [$0, $1, $2] #0 output "y" f32 [$3, $4] #1 arena $6 copy (#1, #1) }}')

    given = ("-i", "photo.ppm", "--time-limit", "none")  # answers are what is bounded here
    container(tools, pipeline(90), None, "--pipeline", "pipeline.json")  # 4 MB each: 390 MB, were they not one
    ends(tools, 0, "portable", given)
    container(tools, pipeline(17, True), None, "--pipeline", "pipeline.json")
    ends(tools, 4, "'photo' is decoded in more than 16 ways", given)
    for rows, steps in ((12, 1), (1, 12)):
        container(tools, best(rows, 1 << 20, steps, 1 << 20), None, "--pipeline", "pipeline.json")
        for form in ((), ("--json",), ("-o", "a.json")):
            text = ends(tools, 7, "error[E6006]: the answers take more than 48 MiB, found at 'top_k'" if not form or form[0] == "-o" else "", (*given, *form))
            assert form == ("--json",) or "--memory-limit" in text, text
    container(tools, best(40, 1 << 20, 100, 1), None, "--pipeline", "pipeline.json")
    ends(tools, 7, "the answers are made of more than", given)
    container(tools, best(4, 50000, 1, 50000), None, "--pipeline", "pipeline.json")  # as many as fit are shown, in text; JSON takes more
    ends(tools, 0, "portable", given)
    ends(tools, 7, "", (*given, "--json"))
    ends(tools, 7, "the answers take more than 1", (*given, "--memory-limit", "14M"))
    ends(tools, 0, "", (*given, "--json", "--memory-limit", "200M"))


def what_json_shows_is_counted_over_all_outputs(tools):
    count, length = 60, 1 << 20
    outputs = range(1, count + 1)
    container(tools, 'plan function "main" { ' + f"$0 = const {length} $1 = const 0 buffer #0 u8 bytes $0 input 0 "
              + "".join(f"buffer #{k} u8 bytes $0 output {k - 1} " for k in outputs) + 'input "x" u8 [$0] #0 '
              + "".join(f'output "y{k}" u8 [$0] #{k} ' for k in outputs) + "arena $1 " + "".join(f"copy (#{k}, #0) " for k in outputs) + "}")
    as_json = ("-i", "zeros", "--json", "--time-limit", "none")
    ends(tools, 0, f"'y{count}' has {length} elements, which are left out", as_json)
    shown = tools.json("mlrun", "run", "file.mlc", *as_json, stderr=None)["outputs"]
    assert [name for name, value in shown.items() if "elided" not in value] == ["y1"], str(shown)[-200:]


def a_map_of_many_keys_is_json_or_refused(tools):
    for count, code in ((1 << 16, 0), (1_000_000, 7)):
        (tools.dir / "keys.bin").write_bytes(struct.pack(f"<{count}q", *range(count)))
        container(tools, f"""plan function "main" {{ $0 = const {count} $1 = const {8 * count} $2 = const 0
            buffer #0 u8 bytes $0 input 0 buffer #1 i64 bytes $1 output 0 buffer #2 u8 bytes $0 output 1 buffer #3 i64 bytes $1 constant 0 copy 0
            input "x" u8 [$0] #0 output "m.keys" i64 [$0] #1 output "m.values" u8 [$0] #2 arena $2 copy (#1, #3) copy (#2, #0) }}""", None, "--weights", "keys.bin")
        as_json = ("-i", "zeros", "--json", "--time-limit", "none")
        ends(tools, code, "", as_json)
        answer = tools.json("mlrun", "run", "file.mlc", *as_json, code=code, stderr=None)
        assert answer.get("code") == (None if code == 0 else "E6006"), str(answer)[:200]
        assert code or len(answer["outputs"]["m"]) == count, str(answer)[:300]


if __name__ == "__main__":
    main([a_kernel_or_program_without_end_is_ended, every_command_that_runs_has_the_limits,
          outputs_larger_than_the_limit_are_refused_and_others_are_not_copied,
          services_are_for_the_trusted_and_for_whom_the_user_names, what_is_wrong_with_the_file_is_the_files_mistake,
          what_a_pipeline_decodes_and_answers_is_bounded, what_json_shows_is_counted_over_all_outputs, a_map_of_many_keys_is_json_or_refused])
