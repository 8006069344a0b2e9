#include "runtime/text/workspace.h"

#include <array>
#include <memory>

namespace mlc::text {
namespace {

constexpr size_t kKeptChars = 1u << 13;  // code points of a text whose memory is kept

// By thread, for then no lock is needed. Ends with the thread.
struct Kept {
  std::array<std::unique_ptr<Workspace>, 4> workspaces;
  uint32_t next = 0;  // to be given up
};
thread_local Kept kept;

}  // namespace

Workspace& workspace_of(const Compiled& tokenizer) {
  for (const auto& one : kept.workspaces)
    if (one && one->tokenizer == tokenizer.number()) return *one;
  auto& place = kept.workspaces[kept.next++ % kept.workspaces.size()];
  place = std::make_unique<Workspace>(tokenizer);
  return *place;
}

void put_back(Workspace& workspace) {
  const Workspace& w = workspace;
  const Chars* const lists[] = {&w.original, &w.part, &w.pieces.chars, &w.normalizer.scratch, &w.splitter.scratch.chars};
  bool large = false;
  for (const Chars* list : lists) large |= list->capacity() > 2 * kKeptChars;
  if (!large) return;
  for (auto& one : kept.workspaces)
    if (one.get() == &workspace) one.reset();
}

}  // namespace mlc::text
