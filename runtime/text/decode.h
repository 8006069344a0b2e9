// Numbers to text, one after the other or all at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "schema/text/compiled.h"

namespace mlc::text {

// Answers as much of the text as is sure after each token: never a part of a UTF-8 character. A run of byte tokens is sure
// where it ends, since one wrong byte makes all of it U+FFFD. `tokenizer` must outlive it.
class Decoder {
 public:
  Decoder(const Compiled& tokenizer, bool skip_special) : tokenizer_(tokenizer), skip_special_(skip_special), states_(tokenizer.decoder().size()) {}

  // Puts what is sure behind `out`. An id that has no token, and with `skip_special` one of a special token, adds nothing.
  void push(uint32_t id, std::string& out);
  // What is left; bytes that are no UTF-8 become U+FFFD. Then it begins anew.
  void finish(std::string& out);

 private:
  using Tokens = std::vector<std::string>;
  // What a step remembers from token to token.
  struct State {
    uint64_t seen = 0;
    std::string held;
    bool holds = false;
  };

  void run(size_t first_step, Tokens tokens, std::string& out);
  void apply(const Step& step, State& state, std::string token, Tokens& out) const;
  void flush(const Step& step, State& state, Tokens& out) const;

  const Compiled& tokenizer_;
  bool skip_special_;
  bool begun_ = false;
  std::vector<State> states_;
};

// Resource: the text would have more than `most` bytes.
[[nodiscard]] Result<std::string> decode(const Compiled& tokenizer, std::span<const uint32_t> ids, bool skip_special, uint64_t most);

}  // namespace mlc::text
