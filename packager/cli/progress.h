// One line on stderr that says what a long command is doing, how much of it is done, and how long that has taken; and the
// times of what is finished.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "packager/compile/build.h"

namespace mlc::cli {

// "target 3 of 11, x86-64-v4: kernels 12 of 340"
std::string progress_text(const compile::Stage& stage);

class ProgressLine {
 public:
  // A stage that is finished.
  struct Phase {
    std::string name;
    double seconds = 0;
  };

  // `mode`: "tty" (one line, rewritten at most ten times a second, none for work under half a second), "plain" (a line for
  // each stage that is finished, with the time that it took), "none", or "auto": tty if stderr is a terminal and neither CI nor a dumb terminal nor
  // `as_json` speaks against it.
  ProgressLine(const std::string& mode, bool as_json);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;

  // From any thread.
  void show(const compile::Stage& stage);
  // The last stage is finished. Nothing is left on a terminal.
  void clear();
  // Once it is cleared: all stages, in order.
  const std::vector<Phase>& phases() const { return phases_; }

 private:
  enum class Mode { None, Plain, Tty };
  using Clock = std::chrono::steady_clock;
  void keep_drawing();
  void finish_stage();

  Mode mode_ = Mode::None;
  std::thread artist_;  // draws on a terminal: stages may be long
  std::mutex mu_;
  std::condition_variable wake_;  // guarded by mu_: all below
  compile::Stage stage_;
  Clock::time_point begin_;  // of the stage
  std::vector<Phase> phases_;
  bool done_ = false;
};

}  // namespace mlc::cli
