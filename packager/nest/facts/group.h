// Neighbouring nests that one launch may compute together, block of rows by block of rows.
//
// A row is a dim that all of them share: where one reads what another wrote, it reads at the very row it is at. So each row
// can be computed on its own, one nest after the other, and an array without other readers need not exist but for the rows
// at hand: it is local. Softmax and norms share the rows they fold over, attention its queries.
//
// Nothing is said but where the work is done: the meaning of grouped statements is that of the statements, in order. What is
// written down is one mark (Statement::joins); rows and locals follow from the nests whenever they are asked for.
#pragma once

#include <optional>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::nest {

// Readers and writers of the arrays of a function, as far as groups ask.
class Lifetimes {
 public:
  explicit Lifetimes(const Function& f);
  // Statements first .. first + count - 1 alone write and read it, and it is no output.
  bool is_private(uint32_t array, size_t first, size_t count) const;
  bool has_one_writer(uint32_t array) const { return spans_[array].writers == 1; }

 private:
  struct Span {
    size_t first = SIZE_MAX, last = 0, writers = 0;
    bool kept = false;  // input, constant, output
  };
  std::vector<Span> spans_;
};

struct Group {
  struct Row {
    std::vector<const ir::Dim*> dims;  // of each nest
  };
  struct Local {
    uint32_t array = 0;
    std::vector<size_t> axes;  // of each row
    size_t writer = 0, last_reader = 0;  // nests
  };
  std::vector<const Nest*> nests;
  std::vector<Row> rows;  // outermost first
  std::vector<Local> locals;
};

// Statements first .. first + count - 1 as a group; nothing if they are none.
std::optional<Group> group_of(const Function& f, const Lifetimes& lifetimes, size_t first, size_t count);
// How many statements are marked as one group that begins with `first`; 1: there is none.
size_t marked_group(const Function& f, size_t first);

}  // namespace mlc::nest
