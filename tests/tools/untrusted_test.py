"""What mlrun does with a stranger's file by default: it ends within its limits, whatever the file says (spec/untrusted.md).

The bounds on the clock are wide, so that they hold on a machine that does other things too; what they tell apart is a run
that ends from one that does not.
"""
import os
import struct
import subprocess
import time

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
FILLED = """plan function "main" {
  $0 = const 1 $1 = const %d $2 = const 0
  buffer #0 u8 bytes $0 input 0 buffer #1 u8 bytes $1 output 0
  input "x" u8 [$0] #0 output "y" u8 [$1] #1 arena $2
  fill (#1) 7
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


def measured(tools, *args):
    """Exit code, stderr, seconds and bytes of memory of `mlrun file.mlc`."""
    start = time.monotonic()
    with open(tools.dir / "stderr", "wb") as errors:
        process = subprocess.Popen([tools.bin / "mlrun", "file.mlc", *args], cwd=tools.dir, env=tools.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, (tools.dir / "stderr").read_text(), time.monotonic() - start, usage.ru_maxrss << 10


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
    container(tools, FILLED % (6 << 30))
    text = ends(tools, 7, "error[E6006]: output of 6442450944 bytes")
    assert "--memory-limit" in text, text
    container(tools, FILLED % (180 << 20))
    patient = ("-i", "zeros", "--time-limit", "none")  # writing so many pages takes long where the machine is busy
    ends(tools, 0, "portable", patient, seconds=60)  # and shown, with its smallest and largest element
    ends(tools, 7, "E6006", ("-i", "zeros", "--memory-limit", "100M"))
    container(tools, FILLED % (260 << 20))
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
        container(tools, FILLED % 64, None, "--pipeline", "pipeline.json")
        ends(tools, 4, "the pipeline in the container: ", ("-i", "picture.ppm"))
    # Kernel 0 jumps more often than it says it may: a rule of portable code. An index outside of an array may come from values.
    bounded = module([instruction(CONST, 0, imm=5), instruction(CONST, 2, imm=1), instruction(WHILE_BEGIN, 1, 0),
                      instruction(WHILE_TEST, a=2), instruction(WHILE_END)], [(I64, 1), (I64, 1), (MASK, 1)], [1])
    container(tools, KERNEL % "launch 0 (#1) () tiles $0", bounded)
    ends(tools, 4, "a loop exceeded its bound")


if __name__ == "__main__":
    main([a_kernel_or_program_without_end_is_ended, every_command_that_runs_has_the_limits,
          outputs_larger_than_the_limit_are_refused_and_others_are_not_copied,
          services_are_for_the_trusted_and_for_whom_the_user_names, what_is_wrong_with_the_file_is_the_files_mistake])
