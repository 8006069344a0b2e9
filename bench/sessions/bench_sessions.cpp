// What it costs that two sessions of one model run at the same time, in two threads of the application.
//
//   bench_sessions MODEL.mlc ... [--threads 1,2] [--rounds 9] [--ms 200]
//
// Each round does the same number of runs twice: two sessions that one thread runs in turn, and the same two sessions in a
// thread each, half of the runs for each. Both share the pool of the process, so both have as many CPUs. The table gives
// microseconds per run, minimum and median of the rounds, and the ratio of the second to the first, of the minima and the
// median of the rounds' ratios. The program is the default one with the inputs of its first golden vector.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/mlc.h"

namespace {

const MlcApi& api() {
  static const MlcApi* table = mlc_get_api(MLC_API_VERSION);
  return *table;
}

[[noreturn]] void give_up(MlcError* error) {
  std::fprintf(stderr, "%s\n", api().error_text(error));
  std::exit(1);
}

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Inputs {
  std::vector<MlcTensor> tensors;
  uint32_t num_outputs = 0;
};

Inputs inputs_of(const MlcModel* model) {
  MlcProgram program{};
  program.size = sizeof program;
  uint32_t index = 0;
  for (int code = 0; code == 0 && !program.is_default; ++index) code = api().program(model, index, &program);
  Inputs out;
  out.tensors.resize(program.num_inputs);
  out.num_outputs = program.num_outputs;
  MlcError* error = nullptr;
  if (api().golden_inputs(model, index - 1, out.tensors.data(), program.num_inputs, &error) != MLC_OK) give_up(error);
  return out;
}

void run(MlcSession* session, const Inputs& in) {
  MlcTensor outputs[16] = {};
  MlcError* error = nullptr;
  if (api().run(session, nullptr, in.tensors.data(), static_cast<uint32_t>(in.tensors.size()), outputs,
                std::min(in.num_outputs, 16u), &error) != MLC_OK)
    give_up(error);
}

// Seconds for `runs` runs by each of the sessions.
double in_turn(MlcSession* const sessions[2], const Inputs& in, int runs) {
  const double start = now();
  for (int i = 0; i < runs; ++i) run(sessions[0], in), run(sessions[1], in);
  return now() - start;
}
double at_once(MlcSession* const sessions[2], const Inputs& in, int runs) {
  const double start = now();
  std::thread other([&] { for (int i = 0; i < runs; ++i) run(sessions[1], in); });
  for (int i = 0; i < runs; ++i) run(sessions[0], in);
  other.join();
  return now() - start;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void measure(const char* path, uint32_t threads, int rounds, double seconds) {
  MlcOpenOptions open{};
  open.size = sizeof open;
  open.path = path;
  open.allow_unsigned = 1;
  MlcModel* model = nullptr;
  MlcError* error = nullptr;
  if (api().open(&open, &model, &error) != MLC_OK) give_up(error);
  const Inputs in = inputs_of(model);
  MlcSessionOptions options{};
  options.size = sizeof options;
  options.threads = threads;
  MlcSession* sessions[2];
  for (MlcSession*& s : sessions)
    if (api().session_create(model, &options, &s, &error) != MLC_OK) give_up(error);

  in_turn(sessions, in, 1);
  const int runs = std::max(1, static_cast<int>(seconds / in_turn(sessions, in, 3) * 3));
  std::vector<double> turns, once, ratios;
  for (int round = 0; round < rounds; ++round) {
    turns.push_back(in_turn(sessions, in, runs) / (2e-6 * runs));
    once.push_back(at_once(sessions, in, runs) / (2e-6 * runs));
    ratios.push_back(once.back() / turns.back());
  }
  const double least_turn = *std::min_element(turns.begin(), turns.end());
  const double least_once = *std::min_element(once.begin(), once.end());
  const char* name = std::strrchr(path, '/');
  std::printf("%-24s %7u %11.2f %9.2f %11.2f %9.2f %8.3f %8.3f\n", name ? name + 1 : path, threads, least_turn,
              median(turns), least_once, median(once), least_once / least_turn, median(ratios));
  for (MlcSession* s : sessions) api().session_release(s);
  api().model_release(model);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<const char*> models;
  std::vector<uint32_t> threads = {1, 2};
  int rounds = 9;
  double seconds = 0.2;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--threads" && i + 1 < argc) {
      threads.clear();
      for (const char* at = argv[++i]; *at; at += *at == ',') threads.push_back(static_cast<uint32_t>(std::strtoul(at, const_cast<char**>(&at), 10)));
    } else if (arg == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (arg == "--ms" && i + 1 < argc) {
      seconds = std::atof(argv[++i]) / 1e3;
    } else {
      models.push_back(argv[i]);
    }
  }
  if (models.empty()) {
    std::fprintf(stderr, "usage: bench_sessions MODEL.mlc ... [--threads 1,2] [--rounds N] [--ms N]\n");
    return 2;
  }
  std::printf("microseconds per run     threads in turn: min    median  at once: min    median    ratio   median\n");
  for (const char* model : models)
    for (const uint32_t t : threads) measure(model, t, rounds, seconds);
  return 0;
}
