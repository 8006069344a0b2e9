#include "packager/cli/inspect_commands.h"

#include <charconv>
#include <cstdio>
#include <memory>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "packager/cli/change/delta_ops.h"
#include "packager/cli/compare/behaviour.h"
#include "packager/cli/compare/diff_ops.h"
#include "packager/cli/inspect/inspect_ops.h"
#include "packager/cli/inspect/size_ops.h"

namespace mlc::cli {

namespace {

struct SizeFlags {
  std::string file, by = "kind", min;
  bool as_json = false;
};

Result<SizeBy> parse_by(const std::string& text) {
  if (text == "kind") return SizeBy::Kind;
  if (text == "variant") return SizeBy::Variant;
  if (text == "segment") return SizeBy::Segment;
  if (text == "tensor") return SizeBy::Tensor;
  return Status(Code::Usage, "--by: '" + text + "' is not known").fact("known: kind variant segment tensor");
}

// "1%", "0.5%" of the file, or a number of bytes.
Result<uint64_t> parse_min(const std::string& text, uint64_t file_bytes) {
  if (text.empty()) return uint64_t{0};
  const Status wrong(Code::Usage, "--min: '" + text + "' is neither a number of bytes nor a share such as 1%");
  const bool share = text.ends_with('%');
  const char* end = text.data() + text.size() - (share ? 1 : 0);
  if (share) {
    double percent = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, percent, std::chars_format::fixed);
    if (error != std::errc() || stop != end || !(percent >= 0 && percent <= 100)) return wrong;
    return static_cast<uint64_t>(static_cast<double>(file_bytes) * percent / 100);
  }
  uint64_t bytes = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, bytes);
  if (error != std::errc() || stop != end) return wrong;
  return bytes;
}

double percent_of(uint64_t bytes, uint64_t whole) {
  return 100.0 * static_cast<double>(bytes) / static_cast<double>(whole);
}

void print_tree(const SizeEntry& entry, uint64_t whole, size_t depth, std::string& out) {
  char front[64];
  std::snprintf(front, sizeof front, "%9s  %5.1f %%  ", human_bytes(entry.bytes).c_str(),
                percent_of(entry.bytes, whole));
  out += front + std::string(2 * depth, ' ') + entry.name + (entry.note.empty() ? "" : "   " + entry.note) + "\n";
  for (const SizeEntry& child : entry.children) print_tree(child, whole, depth + 1, out);
}

Json tree_json(const SizeEntry& entry, uint64_t whole) {
  Json json = {{"name", entry.name}, {"bytes", entry.bytes}, {"percent", percent_of(entry.bytes, whole)}};
  if (!entry.note.empty()) json["note"] = entry.note;
  if (entry.children.empty()) return json;
  Json& entries = json["entries"] = Json::array();
  for (const SizeEntry& child : entry.children) entries.push_back(tree_json(child, whole));
  return json;
}

Result<Report> size_of(const SizeFlags& flags, SizeBy by, SealedContainer& sealed) {
  MLC_ASSIGN(const OpenContainer file, look_into(sealed));
  SizeEntry root = size_tree(file, by);
  const uint64_t whole = root.bytes;
  MLC_ASSIGN(const uint64_t least, parse_min(flags.min, whole));
  fold_small(root, least);
  Report report;
  print_tree(root, whole, 0, report.text);
  report.json = {{"file", flags.file}, {"root", "sha256:" + to_hex(file.opened->root())}, {"by", flags.by},
                 {"file_bytes", whole}};
  report.json["entries"] = Json::array();
  for (const SizeEntry& entry : root.children) report.json["entries"].push_back(tree_json(entry, whole));
  return report;
}

Result<signing::TrustSet> users_trust() { return signing::TrustSet::load(signing::default_trust_sources()); }

int run_size(const SizeFlags& flags) {
  const auto by = parse_by(flags.by);
  if (!by) return finish("size", flags.as_json, by.status());
  const auto trust = users_trust();
  return look({.name = "size", .as_json = flags.as_json, .trust = trust, .paths = {flags.file}},
              [&](std::vector<SealedContainer>& sealed) { return size_of(flags, *by, sealed[0]); });
}

struct InspectFlags : InspectOptions {
  std::string file;
  bool as_json = false;
};

int run_inspect(const InspectFlags& flags) {
  const auto trust = users_trust();
  return look({.name = "inspect", .as_json = flags.as_json, .trust = trust, .paths = {flags.file}, .looks_again = true},
              [&](std::vector<SealedContainer>& sealed) { return inspect_container(sealed[0], trust, flags); });
}

struct DiffFlags {
  std::string a, b, delta;
  bool behaviour = false, force = false, as_json = false;
};

Result<Report> delta_of(const DiffFlags& flags) {
  MLC_ASSIGN(const DeltaResult result, write_delta({flags.a, flags.b, flags.delta, flags.force}));
  const std::string from = "sha256:" + to_hex(result.from), root = "sha256:" + to_hex(result.root);
  Report report;
  report.text = "delta   " + flags.delta + "   " + human_bytes(result.bytes) + " for " + human_bytes(result.bytes_b) + "   from " + from + "   to " + root + "\n";
  report.text += "  of " + flags.a + "   " + human_bytes(result.copied) + ", " + counted(result.num_stored, "part") + " stored\n";
  report.json = {{"a", flags.a}, {"b", flags.b}};
  report.json["delta"] = {{"file", flags.delta}, {"bytes", result.bytes}, {"from", from}, {"root", root}, {"bytes_b", result.bytes_b}, {"copied", result.copied}, {"stored_parts", result.num_stored}};
  return report;
}

int run_diff(const DiffFlags& flags) {
  if (!flags.delta.empty() && flags.behaviour) return finish("diff", flags.as_json, Status(Code::Usage, "--delta and --behaviour exclude each other"));
  if (!flags.delta.empty()) return finish("diff", flags.as_json, delta_of(flags));
  if (flags.force) return finish("diff", flags.as_json, Status(Code::Usage, "--force is for --delta, which is not given"));
  if (flags.behaviour) return compare_behaviour({flags.a, flags.b, flags.as_json});
  const auto trust = users_trust();
  return look({.name = "diff", .as_json = flags.as_json, .trust = trust, .paths = {flags.a, flags.b}, .looks_again = true},
              [&](std::vector<SealedContainer>& sealed) { return diff_containers(sealed[0], sealed[1], trust, flags.as_json); });
}

}  // namespace

void add_inspect_commands(Program& program) {
  {
    auto options = std::make_shared<InspectFlags>();
    const Command inspect = program.add_command("inspect", "what is inside: programs, variants, signatures",
                                                "  mlpack inspect cat.mlc\n  mlpack inspect cat.mlc --variant x86-64-v3 --json\n",
                                                options->as_json);
    inspect.add_option("file", options->file, "container, or a folder with its parts").required();
    inspect.add_option("--variant", options->variant, "only this variant, with all that it wants of a host");
    inspect.add_option("--program", options->program, "only this program");
    inspect.add_flag("--segments", options->segments, "list the segments");
    inspect.add_flag("--tensors", options->tensors, "list the tensors");
    inspect.add_flag("--plan", options->plan, "only the plans, as text: what the runtime executes");
    inspect.on_run([options] { return run_inspect(*options); });
  }
  {
    auto flags = std::make_shared<DiffFlags>();
    const Command diff = program.add_command("diff", "what differs between two containers",
                                             "  mlpack diff cat-1.mlc cat-2.mlc\n  mlpack diff cat-1.mlc cat-2.mlc --delta cat.mld\n", flags->as_json);
    diff.add_option("A", flags->a, "container").required();
    diff.add_option("B", flags->b, "container").required();
    diff.add_flag("--behaviour", flags->behaviour, "run the inputs of A's golden vectors in both, and tell how answers differ");
    diff.add_option("--delta", flags->delta, "write to this file what mlpack apply makes B of, where A is");
    diff.add_flag("-f,--force", flags->force, "overwrite a file that is no delta");
    diff.on_run([flags] { return run_diff(*flags); });
  }
  {
    auto flags = std::make_shared<SizeFlags>();
    const Command size = program.add_command("size", "what costs what, to the byte",
                                             "  mlpack size cat.mlc\n  mlpack size cat.mlc --by tensor --min 1%\n", flags->as_json);
    size.add_option("file", flags->file, "container").required();
    size.add_option("--by", flags->by, "kind, variant, segment or tensor").shows_default("kind");
    size.add_option("--min", flags->min, "fold what is smaller: bytes, or a share of the file such as 1%");
    size.on_run([flags] { return run_size(*flags); });
  }
}

}  // namespace mlc::cli
