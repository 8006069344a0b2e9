// The commands of mlrun. Each adds its subcommand; its callback sets `exit_code`.
#pragma once

namespace CLI {
class App;
}

namespace mlc::cli {

void add_run_command(CLI::App& app, int& exit_code);
void add_probe_command(CLI::App& app, int& exit_code);
void add_explain_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_profile_command(CLI::App& app, int& exit_code);
void add_selftest_command(CLI::App& app, int& exit_code);

}  // namespace mlc::cli
