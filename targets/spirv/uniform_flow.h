// Where the lanes of a block may part: a barrier must not stand there, nor a return before one. Values that follow from the number of a
// lane differ; what is loaded differs where its address does, since lanes that read one place between two barriers read one thing.
#pragma once

#include <cstdint>
#include <vector>

namespace mlc::targets::spirv {

class UniformFlow {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Constructs are numbered as they open; the function itself is none.
  uint32_t open(bool is_loop);
  void close() { current_ = constructs_[current_].parent; }
  void condition(uint32_t construct, uint32_t id) { constructs_[construct].conditions.push_back(id); }
  void leave(uint32_t loop) { exits_.push_back({loop, current_}); }  // from where it is

  void source(uint32_t id) { sources_.push_back(id); }               // differs
  void value(uint32_t id, std::vector<uint32_t> from) { moves_.push_back({id, current_, false, std::move(from)}); }
  void store(uint32_t variable, std::vector<uint32_t> from) { moves_.push_back({variable, current_, true, std::move(from)}); }
  void meeting() { meetings_.push_back(current_); }                  // all lanes must come here or none

  // `bound`: of the ids. False if lanes may part at a meeting, or if that is too entangled to be seen.
  bool holds(uint32_t bound) const;

 private:
  struct Construct {
    uint32_t parent = kNone;
    bool is_loop = false;
    std::vector<uint32_t> conditions;
  };
  struct Move {
    uint32_t to = 0, construct = kNone;
    bool is_store = false;
    std::vector<uint32_t> from;
  };
  struct Exit {
    uint32_t loop, from;
  };

  std::vector<Construct> constructs_;
  std::vector<Move> moves_;
  std::vector<Exit> exits_;
  std::vector<uint32_t> sources_, meetings_;
  uint32_t current_ = kNone;
};

}  // namespace mlc::targets::spirv
