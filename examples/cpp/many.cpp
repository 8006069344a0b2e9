// Many pictures at once: sessions of one model that share threads, runs that go on by themselves, and a stop for all of them
// when one fails.
//
//   build/many digits.mlc publisher.pub.pem PICTURE.pgm...
#include "picture.hpp"

#include <mlrt/mlc.hpp>

#include <iostream>
#include <latch>
#include <stop_token>
#include <vector>

namespace {

struct Job {
  mlrt::Vector<float> pixels;
  mlrt::Session session;
  std::string answer;
  int code = MLC_OK;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::cerr << "usage: many MODEL.mlc KEY.pem PICTURE.pgm...\n", MLC_USAGE;
  const auto model = mlrt::Model::open(argv[1], {.trust_keys = {argv[2]}});
  if (!model) return std::cerr << model.error().text() << '\n', model.error().code();
  const auto pool = mlrt::Pool::create();  // one thread per core, however many sessions there are
  if (!pool) return std::cerr << pool.error().text() << '\n', pool.error().code();

  std::stop_source stop;
  std::latch left(argc - 3);
  std::vector<Job> jobs;  // behind what the runs use: sessions wait for them when they go
  for (int i = 3; i < argc; ++i) {
    auto pixels = read_picture(argv[i]);
    if (!pixels) return std::cerr << argv[i] << ": expected a PGM (P2) of 28 x 28\n", MLC_INPUT_MISMATCH;
    auto session = model->session({.threads = 1, .pool = &*pool});
    if (!session) return std::cerr << session.error().text() << '\n', session.error().code();
    jobs.push_back({std::move(*pixels), std::move(*session), {}, MLC_OK});
  }

  for (Job& job : jobs) {
    // Called by a thread of the library; `job` and all that the function refers to stay until `left` is down.
    auto done = [&](mlrt::Result<mlrt::Outputs> out) {
      const auto logits = out ? out->values<float>("logits") : std::move(out).error();
      if (!logits) stop.request_stop();
      job.answer = logits ? label_of(*model, *logits) : logits.error().text();
      job.code = logits ? MLC_OK : logits.error().code();
      left.count_down();
    };
    auto started = job.session.run_async({image_of(job.pixels)}, done, {.stop = stop.get_token()});
    if (!started) done(std::move(started).error());
  }
  left.wait();
  int code = MLC_OK;
  for (const Job& job : jobs) {
    (job.code == MLC_OK ? std::cout : std::cerr) << job.answer << '\n';
    if (code == MLC_OK) code = job.code;
  }
  return code;
}
