// One line on stderr that says what a long command is doing.
#pragma once

#include <chrono>
#include <string>

namespace mlc::cli {

class Progress {
 public:
  // `mode`: "tty" (one line, rewritten), "plain" (a line per stage), "none", or "auto": tty if stderr is a terminal and
  // neither CI nor a dumb terminal nor `as_json` speaks against it.
  Progress(const std::string& mode, bool as_json);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;

  void show(const std::string& stage);
  void clear();

 private:
  enum class Mode { None, Plain, Tty } mode_ = Mode::None;
  std::chrono::steady_clock::time_point start_;
  bool shown_ = false;
};

}  // namespace mlc::cli
