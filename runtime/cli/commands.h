// The commands of mlrun. Each adds its subcommand; its callback sets `exit_code`.
#pragma once

#include <string_view>

namespace CLI {
class App;
}

namespace mlc::cli {

// What a process does that was started to ask drivers for devices (runtime/probe/devices.h): prints them.
int answer_probe(std::string_view api);
void add_run_command(CLI::App& app, int& exit_code);
void add_probe_command(CLI::App& app, int& exit_code);
void add_explain_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_profile_command(CLI::App& app, int& exit_code);
void add_selftest_command(CLI::App& app, int& exit_code);

}  // namespace mlc::cli
