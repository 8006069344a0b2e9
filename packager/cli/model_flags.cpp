#include "packager/cli/model_flags.h"

#include <algorithm>
#include <utility>
#include <charconv>

#include "base/cli/json_tree.h"
#include "base/text/json.h"
#include "base/text/nearest_name.h"
#include "schema/validate/validate.h"
#include "targets/target_groups.h"

namespace mlc::cli {
namespace {

// What factors are rounded to, and of golden vectors, relative to the largest output, what a model of some dozen layers loses by that: tf32
// and f16 have 11 bits, bf16 has 8.
struct PrecisionRow {
  std::string_view name;
  passes::Precision precision;
  double tolerance;
};
constexpr PrecisionRow kPrecisions[] = {{"tf32", passes::Precision::TF32, 3e-3}, {"f16", passes::Precision::F16, 5e-3}, {"bf16", passes::Precision::BF16, 3e-2}};

// "batch=1..8" or "width=320"
Result<compile::DimBound> parse_dim(const std::string& text) {
  const Status wrong(Code::Usage, "--dim '" + text + "' is not NAME=LOW..HIGH or NAME=VALUE");
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return wrong;
  compile::DimBound bound;
  bound.name = text.substr(0, equals);
  const std::string range = text.substr(equals + 1);
  const size_t dots = range.find("..");
  const auto parse = [](const std::string& digits, int64_t& out) {
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  };
  const bool good = dots == std::string::npos ? parse(range, bound.lo) && (bound.hi = bound.lo, true)
                                              : parse(range.substr(0, dots), bound.lo) && parse(range.substr(dots + 2), bound.hi);
  if (!good || bound.lo < 0) return wrong;
  if (bound.hi < bound.lo)
    return Status(Code::Usage, "--dim '" + text + "': the low bound " + std::to_string(bound.lo) + " is above the high bound " + std::to_string(bound.hi));
  return bound;
}

// "x=[N,3]"; "?" is an extent without a name
Result<compile::GivenShape> parse_shape(const std::string& text) {
  const Status wrong(Code::Usage, "--shape '" + text + "' is not NAME=[EXTENT,...], with a number or a name for each axis");
  const size_t open = text.rfind("=[");
  if (open == std::string::npos || open == 0 || text.back() != ']') return wrong;
  compile::GivenShape given{text.substr(0, open), {}};
  std::string rest = text.substr(open + 2, text.size() - open - 3);
  for (bool more = !rest.empty(); more;) {
    const size_t comma = rest.find(',');
    more = comma != std::string::npos;
    std::string word = rest.substr(0, comma);
    rest = more ? rest.substr(comma + 1) : std::string();
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), extent);
    const bool is_number = error == std::errc() && end == word.data() + word.size();
    if (word.empty() || (is_number && extent < -1) || !format::is_clean_text(word, format::kMaxNameLen)) return wrong;
    if (is_number && extent >= 0) given.shape.emplace_back(extent);
    else given.shape.emplace_back(is_number ? std::string("?") : word);  // -1 is how some write a free extent
  }
  return given;
}

// "h=hn", "past.*=present.*"
Result<compile::StatePair> parse_state(const std::string& text) {
  const size_t equals = text.find('=');
  compile::StatePair pair{text.substr(0, equals), equals == std::string::npos ? std::string() : text.substr(equals + 1)};
  const auto stars = [](const std::string& name) { return std::count(name.begin(), name.end(), '*'); };
  if (pair.input.empty() || pair.output.empty()) return Status(Code::Usage, "--state '" + text + "' is not INPUT=OUTPUT");
  if (stars(pair.input) < stars(pair.output)) return Status(Code::Usage, "--state '" + text + "': the output has more '*' than the input, which say what they stand for");
  return pair;
}

// "none" or a number of bytes
Result<uint64_t> parse_derived(const std::string& text) {
  uint64_t bytes = 0;
  if (text == "none") return bytes;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error == std::errc() && end == text.data() + text.size()) return bytes;
  return Status(Code::Usage, "--derived '" + text + "' is neither none nor a number of bytes");
}

// The targets of a kind of devices: "vulkan" is all that begin with "vulkan-", but those of one architecture alone.
std::vector<const targets::Target*> devices_of(const std::string& family) {
  std::vector<const targets::Target*> found;
  for (const targets::Target& target : targets::device_targets())
    if (target.name.starts_with(family + "-") && !target.is_alone) found.push_back(&target);
  return found;
}

// Names of processors and devices that others use, and what they are called here.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"aarch64", "armv8-a"},   {"arm64", "armv8-a"},      {"armv8", "armv8-a"},      {"amd64", "x86-64-v2"},   {"x86_64", "x86-64-v2"}, {"x64", "x86-64-v2"},
    {"sse4", "x86-64-v2"},    {"avx", "x86-64-v3"},      {"avx2", "x86-64-v3"},     {"haswell", "x86-64-v3"}, {"avx512", "x86-64-v4"}, {"avx-512", "x86-64-v4"},
    {"riscv64", "rv64gc"},    {"riscv", "rv64gc"},       {"loongarch", "loongarch64"}, {"la64", "loongarch64"},  {"lsx", "loongarch64-lsx"}, {"lasx", "loongarch64-lsx"},
    {"gpu", "vulkan,cuda"},   {"nvidia", "cuda"},        {"ptx", "cuda"},           {"spirv", "vulkan"},
    {"cpu", "native"},        {"host", "native"},        {"interpreter", "portable"}};

std::string unknown_target(const std::string& name, const std::vector<std::string>& known) {
  std::string lower = name;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const auto& [other, ours] : kOtherNames)
    if (lower == other) return "unknown target '" + name + "', did you mean '" + std::string(ours) + "'?";
  return unknown_word("target", name, known);
}

}  // namespace

Result<std::vector<const targets::Target*>> targets_named(const std::vector<std::string>& names) {
  std::vector<const targets::Target*> found;
  std::vector<std::string> problems;
  const auto add = [&](const targets::Target* target) {
    if (std::find(found.begin(), found.end(), target) == found.end()) found.push_back(target);
  };
  for (const std::string& name : names) {
    if (const targets::TargetGroup* group = targets::find_target_group(name)) {
      for (const targets::Target* target : group->targets) add(target);
    } else if (name == "native") {
      add(targets::native_target());
    } else if (const targets::Target* target = targets::find_target(name)) {
      add(target);
    } else if (const auto family = devices_of(name); !family.empty()) {
      for (const targets::Target* target : family) add(target);
    } else {
      std::vector<std::string> known = {"native"};
      for (const targets::TargetGroup& one : targets::target_groups()) known.emplace_back(one.name);
      for (const auto some : {targets::all_targets(), targets::device_targets()})
        for (const targets::Target& target : some) known.push_back(target.name);
      problems.push_back(unknown_target(name, known));
    }
  }
  if (!problems.empty()) {
    Status status(Code::Usage, problems.front());
    status.facts.assign(problems.begin() + 1, problems.end());
    return std::move(status).hint("mlpack targets");
  }
  return found;
}

std::string to_text(const ModelFlags& flags) {
  return Json({{"dim", flags.dims}, {"shape", flags.shapes}, {"feed", flags.fed}, {"state", flags.states}, {"forms", flags.forms}, {"precision", flags.precision}, {"derived", flags.derived}}).print();
}

Result<ModelFlags> flags_of_text(std::string_view text) {
  MLC_ASSIGN(const JsonDocument document, parse_json(text, "the options of the program", {.bytes = 64 << 10, .depth = 4, .values = 1 << 14}));
  ModelFlags flags;
  for (const auto& [key, list] : {std::pair("dim", &flags.dims), {"shape", &flags.shapes}, {"feed", &flags.fed}, {"state", &flags.states}})
    if (const JsonValue* found = document.root().find(key))
      for (const JsonValue& item : found->items()) list->emplace_back(item.text());
  for (const auto& [key, word] : {std::pair("forms", &flags.forms), {"precision", &flags.precision}, {"derived", &flags.derived}})
    if (const JsonValue* found = document.root().find(key)) *word = found->text();
  return flags;
}

void add_interface_flags(const Command& command, ModelFlags& flags) {
  command.add_option("--dim", flags.dims, "bounds of a free extent, NAME=LOW..HIGH, or NAME=VALUE to freeze it");
  command.add_option("--shape", flags.shapes, "the shape of an input, NAME=[N,3], where the model does not tell it: numbers, and names of free extents");
  command.add_option("--feed", flags.fed, "name of an initializer (an input with a default, a weight) that becomes an input, without a default");
  command.add_option("--state", flags.states, "INPUT=OUTPUT: what a session keeps between runs, zeros in the first: past.*=present.* for all of a pattern");
}

Result<compile::InterfaceChoices> interface_of(const ModelFlags& flags) {
  compile::InterfaceChoices choices;
  choices.fed = flags.fed;
  for (const std::string& text : flags.shapes) {
    MLC_ASSIGN(compile::GivenShape shape, parse_shape(text));
    choices.shapes.push_back(std::move(shape));
  }
  for (const std::string& text : flags.dims) {
    MLC_ASSIGN(compile::DimBound bound, parse_dim(text));
    choices.dims.push_back(std::move(bound));
  }
  for (const std::string& text : flags.states) {
    MLC_ASSIGN(compile::StatePair pair, parse_state(text));
    choices.states.push_back(std::move(pair));
  }
  return choices;
}

void add_model_flags(const Command& command, ModelFlags& flags, const char* model) {
  command.add_option("MODEL", flags.path, model).required();
  add_compile_flags(command, flags);
}

void add_compile_flags(const Command& command, ModelFlags& flags) {
  add_interface_flags(command, flags);
  command.add_option("--ops", flags.operator_folders, "folder with operators of your own (*.mlop)");
  command.add_option("--forms", flags.forms, "all, or none: whether convolutions may be computed with fewer multiplications, which rounds a little more")
      .one_of({"all", "none"}).shows_default();
  command.add_option("--precision", flags.precision, "what products multiply, sums stay f32: f32; tf32, 11 bits on tensor cores (other targets as f32); f16 or bf16, 11 and 8 bits of products with weights, which are half as large, on devices and with a target of AMX (bf16) of attention as well")
      .one_of({"f32", "tf32", "f16", "bf16"}).shows_default();
  command.add_option("--derived", flags.derived, "memory for constants that are computed when the model is opened: none or BYTES (default: 64 MiB)");
}

Status apply(const ModelFlags& flags, compile::BuildOptions& options) {
  options.model_path = flags.path;
  options.operator_folders = flags.operator_folders;
  MLC_ASSIGN(options.interface, interface_of(flags));
  options.forms = flags.forms != "none";
  for (const PrecisionRow& row : kPrecisions) {
    if (flags.precision != row.name) continue;
    options.precision = row.precision;
    options.tolerance = row.tolerance;
  }
  if (!flags.derived.empty()) {
    MLC_ASSIGN(options.most_derived, parse_derived(flags.derived));
  }
  return ok();
}

}  // namespace mlc::cli
