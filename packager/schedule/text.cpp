#include <algorithm>
#include <array>
#include <optional>

#include "packager/schedule/schedule.h"

namespace mlc::schedule {
namespace {

constexpr std::array<std::string_view, 13> kFamilies = {"product", "thin", "decoded", "window", "map", "transpose", "proc", "tile", "slices", "lines", "fold", "attention", "group"};
constexpr std::array<std::string_view, 7> kBinds = {"", "cut", "rows", "lanes", "unroll", "grid", "cluster"};
constexpr std::array<std::string_view, 3> kTails = {"mask", "narrow", "one"};
constexpr std::array<std::string_view, 3> kHoistings = {"all", "innermost", "none"};
constexpr int64_t kMost = 1ll << 40;
constexpr int64_t kMostSmall = 1 << 16;
constexpr size_t kMostLoops = 64;

template <size_t N>
std::optional<size_t> place_of(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? std::nullopt : std::optional(static_cast<size_t>(at - names.begin()));
}

std::string text_of(const Loop& l) {
  std::string text = l.dim + ":" + std::to_string(l.step);
  if (l.bind != Bind::Serial) text += " " + std::string(kBinds[static_cast<size_t>(l.bind)]);
  if (l.bind == Bind::Lanes) text += " x" + std::to_string(l.count);
  if (l.bind == Bind::Unroll && l.count) text += " " + std::to_string(l.count);
  if (l.chains != 1) text += " chains " + std::to_string(l.chains);
  if (l.tail != Tail::Mask) text += " " + std::string(kTails[static_cast<size_t>(l.tail)]);
  if (l.even) text += " even";
  if (l.peel) text += " peel";
  return text;
}

// Words between blanks.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) { next(); }

  Result<Schedule> run() {
    MLC_RETURN_IF_ERROR(schedule(false));
    if (!word_.empty()) return error("nothing more is expected");
    return std::move(s_);
  }

 private:
  Status schedule(bool is_stage) {
    const auto family = place_of(kFamilies, word_);
    if (!family) return error("there is no family " + std::string(word_));
    s_.family = static_cast<Family>(*family);
    if (is_stage && s_.family == Family::Group) return error("a stage is no group");
    next();
    if (s_.family == Family::Group) {
      MLC_RETURN_IF_ERROR(stages());
    } else if (s_.family != Family::Proc) {
      MLC_RETURN_IF_ERROR(loops());
    } else if (word_.starts_with("x")) {
      MLC_ASSIGN(s_.lanes, times());
    }
    while (accept(";")) MLC_RETURN_IF_ERROR(clause());
    return ok();
  }

  // "48 rows { product ... } { map ... }"
  Status stages() {
    Schedule group = std::move(s_);
    if (at_number()) {
      MLC_ASSIGN(group.blocks.rows, number());
      if (!accept("rows")) return error("rows are expected");
      if (group.blocks.rows == 0) return error("no rows have no number");
    }
    while (accept("{")) {
      if (group.stages.size() == kMostLoops) return error("there are too many stages");
      s_ = Schedule();
      MLC_RETURN_IF_ERROR(schedule(true));
      if (!accept("}")) return error("} is expected");
      group.stages.push_back(std::move(s_));
    }
    s_ = std::move(group);
    return ok();
  }

  void next() {
    const size_t begin = std::min(rest_.find_first_not_of(" \t\n"), rest_.size());
    rest_.remove_prefix(begin);
    const size_t length = std::min(rest_.find_first_of(" \t\n"), rest_.size());
    word_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
  }
  bool accept(std::string_view word) {
    if (word_ != word) return false;
    next();
    return true;
  }
  Status error(const std::string& what) const {
    return Status(Code::Malformed, "schedule: " + what + (word_.empty() ? ", at the end" : ", at \"" + std::string(word_.substr(0, 40)) + "\""));
  }

  Result<int64_t> value_of(std::string_view digits, int64_t most) {
    int64_t n = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9' || n > most) return error("a number is expected");
      n = 10 * n + (c - '0');
    }
    if (digits.empty() || n > most) return error("a number up to " + std::to_string(most) + " is expected");
    return n;
  }
  Result<int64_t> number(int64_t most = kMost) {
    MLC_ASSIGN(const int64_t n, value_of(word_, most));
    next();
    return n;
  }
  // "x4"
  Result<unsigned> times() {
    if (!word_.starts_with("x")) return error("x and a number are expected");
    MLC_ASSIGN(const int64_t n, value_of(word_.substr(1), kMostSmall));
    next();
    return static_cast<unsigned>(n);
  }
  bool at_number() const { return !word_.empty() && word_[0] >= '0' && word_[0] <= '9'; }

  Status loops() {
    bool reduces = false;
    while (!word_.empty() && word_ != ";" && word_ != "}") {
      if (accept("||")) {
        if (reduces) return error("there is one || at most");
        reduces = true;
      } else if (!s_.loops.empty() && !accept("|")) {
        return error("| is expected");
      }
      if (s_.loops.size() == kMostLoops) return error("there are too many loops");
      const size_t colon = word_.find(':');
      if (colon == 0 || colon == std::string_view::npos) return error("a loop is a dim and its step");
      Loop l;
      l.reduces = reduces;
      l.dim = word_.substr(0, colon);
      MLC_ASSIGN(l.step, value_of(word_.substr(colon + 1), kMost));
      next();
      MLC_RETURN_IF_ERROR(attributes(l));
      s_.loops.push_back(std::move(l));
    }
    return ok();
  }

  Status attributes(Loop& l) {
    for (; !word_.empty() && word_ != ";" && word_ != "|" && word_ != "||" && word_ != "}";) {
      if (const auto bind = place_of(kBinds, word_)) {
        if (l.bind != Bind::Serial) return error("a loop is bound once");
        next();
        l.bind = static_cast<Bind>(*bind);
        if (l.bind == Bind::Lanes) {
          MLC_ASSIGN(l.count, times());
        } else if (l.bind == Bind::Unroll) {
          l.count = 0;
          if (!at_number()) continue;
          MLC_ASSIGN(const int64_t copies, number(kMostSmall));
          l.count = static_cast<unsigned>(copies);
          if (l.count == 0) return error("copies of all have no number");
        }
      } else if (const auto tail = place_of(kTails, word_)) {
        next();
        l.tail = static_cast<Tail>(*tail);
      } else if (accept("chains")) {
        MLC_ASSIGN(const int64_t chains, number(kMostSmall));
        l.chains = static_cast<unsigned>(chains);
      } else if (accept("even")) {
        l.even = true;
      } else if (accept("peel")) {
        l.peel = true;
      } else {
        return error("a loop has no such word");
      }
    }
    return ok();
  }

  Status clause() {
    if (accept("place")) {
      Place p;
      p.what = word_;
      if (p.what.empty()) return error("what is placed is expected");
      next();
      if (word_.starts_with("x")) {
        MLC_ASSIGN(p.lanes, times());
      }
      if (s_.places.size() == kMostLoops) return error("there are too many places");
      s_.places.push_back(std::move(p));
    } else if (s_.family != Family::Group && accept("blocks")) {
      const std::pair<int64_t*, std::string_view> parts[] = {
          {&s_.blocks.steps, "steps"}, {&s_.blocks.bytes, "bytes"}, {&s_.blocks.rows, "rows"}, {&s_.blocks.passes, "passes"}};
      for (const auto& [value, unit] : parts) {
        MLC_ASSIGN(*value, number());
        if (!accept(unit)) return error(std::string(unit) + " are expected");
      }
      if (accept("shared")) {
        MLC_ASSIGN(s_.blocks.shared, number());
      }
      if (accept("depth")) {
        MLC_ASSIGN(s_.blocks.depth, number());
      }
      s_.blocks.fetch = accept("fetch");
    } else if (accept("tile")) {
      MLC_ASSIGN(s_.tile.rows, number());
      if (!accept("x")) return error("rows x columns are expected");
      MLC_ASSIGN(s_.tile.columns, number());
      if (!accept("depth")) return error("the depth of a tile is expected");
      MLC_ASSIGN(s_.tile.depth, number());
      if (!accept("copies")) return error("the copies of a step are expected");
      MLC_ASSIGN(const int64_t copies, number(kMostSmall));
      s_.tile.copies = static_cast<unsigned>(copies);
      s_.tile.flat = accept("flat");
      if (accept("stages")) {
        MLC_ASSIGN(const int64_t stages, number(kMostSmall));
        if (stages == 0) return error("no stages have no number");
        s_.tile.stages = static_cast<unsigned>(stages);
      }
      if (accept("warp")) {
        MLC_ASSIGN(const int64_t rows, number(kMostSmall));
        if (rows == 0) return error("a warp without rows has no number");
        s_.tile.warp = static_cast<unsigned>(rows);
      }
    } else if (accept("instr")) {
      if (word_.empty()) return error("an instruction is expected");
      s_.instruction = word_;
      next();
    } else if (accept("block")) {
      MLC_ASSIGN(const int64_t lanes, number(kMostSmall));
      s_.block = static_cast<unsigned>(lanes);
    } else if (accept("vectors")) {
      MLC_ASSIGN(const int64_t bytes, number(kMostSmall));
      s_.vector_bytes = static_cast<unsigned>(bytes);
    } else if (accept("hoist")) {
      const auto known = place_of(kHoistings, word_);
      if (!known) return error("values are carried out of all loops, innermost ones or none");
      s_.hoist = static_cast<loop::Hoisting>(*known);
      next();
    } else {
      return error("there is no such clause");
    }
    return ok();
  }

  std::string_view rest_, word_;
  Schedule s_;
};

}  // namespace

std::string print(const Schedule& s) {
  std::string text(kFamilies[static_cast<size_t>(s.family)]);
  if (s.family == Family::Proc && s.lanes > 1) text += " x" + std::to_string(s.lanes);
  if (s.family == Family::Group && s.blocks.rows) text += " " + std::to_string(s.blocks.rows) + " rows";
  for (const Schedule& stage : s.stages) text += " { " + print(stage) + " }";
  for (size_t k = 0; k < s.loops.size(); ++k) {
    const bool first_of_fold = s.loops[k].reduces && (k == 0 || !s.loops[k - 1].reduces);
    text += first_of_fold ? " || " : k > 0 ? " | " : " ";
    text += text_of(s.loops[k]);
  }
  for (const Place& p : s.places) text += " ; place " + p.what + (p.lanes > 1 ? " x" + std::to_string(p.lanes) : "");
  if (s.family != Family::Group && s.blocks != Blocks{})
    text += " ; blocks " + std::to_string(s.blocks.steps) + " steps " + std::to_string(s.blocks.bytes) + " bytes " + std::to_string(s.blocks.rows) +
            " rows " + std::to_string(s.blocks.passes) + " passes" + (s.blocks.shared ? " shared " + std::to_string(s.blocks.shared) : "") +
            (s.blocks.depth ? " depth " + std::to_string(s.blocks.depth) : "") + (s.blocks.fetch ? " fetch" : "");
  if (s.tile != Tile{})
    text += " ; tile " + std::to_string(s.tile.rows) + " x " + std::to_string(s.tile.columns) + " depth " + std::to_string(s.tile.depth) + " copies " +
            std::to_string(s.tile.copies) + (s.tile.flat ? " flat" : "") + (s.tile.stages ? " stages " + std::to_string(s.tile.stages) : "") +
            (s.tile.warp ? " warp " + std::to_string(s.tile.warp) : "");
  if (!s.instruction.empty()) text += " ; instr " + s.instruction;
  if (s.block) text += " ; block " + std::to_string(s.block);
  text += " ; vectors " + std::to_string(s.vector_bytes);
  if (s.hoist != loop::Hoisting::All) text += " ; hoist " + std::string(kHoistings[static_cast<size_t>(s.hoist)]);
  return text;
}

Result<Schedule> parse(std::string_view text) { return Parser(text).run(); }

bool is_scalar(const Schedule& s) {
  if (s.family == Family::Proc) return s.lanes <= 1;
  if (s.family == Family::Group) return std::all_of(s.stages.begin(), s.stages.end(), is_scalar);
  return std::none_of(s.loops.begin(), s.loops.end(), [](const Loop& l) { return l.bind == Bind::Lanes && l.step > 1; });
}

}  // namespace mlc::schedule
