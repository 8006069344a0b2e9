// Memory of large outputs, kept from one run of a session to the next. Fresh pages of the system cost
// a fault and a page of zeros for each 4 KiB, and malloc gives blocks of this size back at once: for the scores of a language
// model (50257 words for each of 512 tokens, 103 MB) that took a tenth of the run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace mlrt {

// Any thread. Tensors hold it, so that it outlives the session where they do.
class OutputMemory {
 public:
  static constexpr uint64_t kLarge = 1 << 20;  // bytes; smaller ones come from malloc, which keeps them itself
  // What a block of so many bytes takes. Sizes in steps of an eighth: outputs that grow a little from run to run fit again.
  static uint64_t room_for(uint64_t bytes);

  OutputMemory() = default;
  OutputMemory(const OutputMemory&) = delete;
  ~OutputMemory();
  // The large outputs of the run that begins take `bytes` of room together. No more than that is kept, whatever comes back.
  void begin_run(uint64_t bytes);
  // 64-byte aligned, whatever is in it; null: there is none. `room` as room_for says.
  void* take(uint64_t room);
  void give_back(void* block, uint64_t room);
  // The session is gone: nothing more is kept.
  void close() { begin_run(0); }

 private:
  struct Block {
    void* data;
    uint64_t room;
  };
  void shrink();

  std::mutex mutex_;
  std::vector<Block> idle_;  // oldest first
  uint64_t kept_ = 0, most_ = 0;
};

}  // namespace mlrt
