// The commands of mlrun. Each function adds one to the program.
#pragma once

#include <string_view>

namespace mlc::cli {

class Program;

// What a process does that was started to ask drivers for devices (runtime/probe/devices.h): prints them.
int answer_probe(std::string_view api);
void add_run_command(Program& program);
void add_probe_command(Program& program);
void add_embed_command(Program& program);
void add_explain_command(Program& program);
void add_bench_command(Program& program);
void add_profile_command(Program& program);
void add_selftest_command(Program& program);
void add_tune_command(Program& program);

}  // namespace mlc::cli
