#include "runtime/cli/inputs/program_io.h"

#include <algorithm>
#include <map>

#include "base/cli/columns.h"
#include "base/counted.h"
#include "base/text/shell_word.h"
#include "runtime/cli/inputs/made_up.h"
#include "runtime/io/input_spec.h"
#include "runtime/probe/probe.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::cli {
namespace {

constexpr size_t kLongestExtent = 16;  // an expression that is longer is shown as '?'
// Of made-up inputs of an untrusted file: its session may hold as much (spec/untrusted.md).
constexpr uint64_t kUntrustedBytes = uint64_t{192} << 20;
constexpr const char* kMemoryOption = "--memory-limit";
constexpr uint64_t kMostUnsized = uint64_t{1} << 30;

uint64_t bytes_held(const HostTensor& t) {
  uint64_t bytes = t.data.size() + t.strings.capacity() * sizeof(std::string);
  for (const std::string& s : t.strings) bytes += s.capacity();
  return bytes;
}

// Bare arrays for the ports of a program.
class RawInputs {
 public:
  static Result<RawInputs> of(const OpenModel& model, const mlio::Target& target, const std::vector<std::string>& dims,
                              InputMemory& memory) {
    MLC_ASSIGN(MadeUpInputs made_up, MadeUpInputs::of(model, target.program, dims));
    return RawInputs(target.has_pipeline, std::move(made_up), memory);
  }

  // Whatever is given comes before what is made up, which fits it and fills the rest.
  Status add_all(const std::vector<io::InputSpec>& specs, io::InputFiles& files) {
    for (const io::InputSpec& spec : specs)
      if (!is_made_up(spec)) MLC_RETURN_IF_ERROR(add(spec, files));
    for (size_t i = 0; i < ports_.size(); ++i)
      for (const HostTensor& t : given_[i]) made_up_.fit(ports_[i], t);
    for (const io::InputSpec& spec : specs)
      if (is_made_up(spec) && !spec.name.empty()) MLC_RETURN_IF_ERROR(make_up(spec));
    for (const io::InputSpec& spec : specs)
      if (is_made_up(spec) && spec.name.empty()) MLC_RETURN_IF_ERROR(make_up(spec));
    return ok();
  }

  Result<std::vector<NamedTensor>> take() {
    Status missing;
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (!given_[i].empty() || ports_[i].list_depth > 0) continue;  // a list may be empty
      if (missing.ok()) missing = Status(Code::InputMismatch, 4001, "inputs are missing");
      missing.facts.push_back(std::string(ports_[i].name) + "   missing, expected " + port_text(ports_[i]));
    }
    if (!missing.ok()) return std::move(missing).hint("-i NAME=FILE.npy, -i FILE.npz, or -i random");
    std::vector<NamedTensor> out;
    for (size_t i = 0; i < ports_.size(); ++i)
      for (HostTensor& t : given_[i]) out.push_back({ports_[i].name, std::move(t)});
    return out;
  }

 private:
  RawInputs(bool has_pipeline, MadeUpInputs made_up, InputMemory& memory)
      : has_pipeline_(has_pipeline), memory_(memory), made_up_(std::move(made_up)), ports_(made_up_.ports()), given_(ports_.size()) {}

  static bool is_made_up(const io::InputSpec& spec) {
    return spec.kind == io::InputSpec::Kind::Random || spec.kind == io::InputSpec::Kind::Zeros;
  }

  // The input of this name; without one, all that have nothing yet.
  Status make_up(const io::InputSpec& spec) {
    bool any = false;
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (!spec.name.empty() ? spec.name != ports_[i].name : !given_[i].empty()) continue;
      if (!given_[i].empty()) return given_twice(spec.name);
      MLC_ASSIGN(HostTensor made, made_up_.make(i, spec.kind == io::InputSpec::Kind::Random, memory_));
      given_[i].push_back(std::move(made));
      any = true;
    }
    return any || spec.name.empty() ? ok() : unknown(spec.name);
  }

  Status add(const io::InputSpec& spec, io::InputFiles& files) {
    if (spec.kind == io::InputSpec::Kind::Numbers) return add_numbers(spec);
    Result<io::LoadedInput> read = io::load_input(spec, files, memory_.for_files());
    if (!read.ok()) return meant_as_value(read.status(), spec);
    io::LoadedInput loaded = std::move(*read);
    for (const NamedTensor& t : loaded.tensors) memory_.take_files(bytes_held(t.tensor));
    if (loaded.tensors.empty() && loaded.media == io::Media::Zip) return ok();  // an archive of no arrays: the program may take none
    if (loaded.tensors.empty()) memory_.take_files(loaded.bytes.size());
    if (loaded.tensors.empty() && takes_files(spec.name)) {
      const auto size = static_cast<int64_t>(loaded.bytes.size());
      return place(spec.name, HostTensor{DType::U8, {size}, std::move(loaded.bytes)});
    }
    if (loaded.tensors.empty() && loaded.media == io::Media::Unknown)
      if (const size_t at = input_for_lines(spec.name); at < ports_.size()) {
        MLC_ASSIGN(HostTensor lines, lines_of(ports_[at], loaded.bytes.bytes(), spec.path));
        given_[at].push_back(std::move(lines));
        return ok();
      }
    if (loaded.tensors.empty()) {
      const std::string kind(io::describe_bytes(loaded.bytes.bytes()));
      return Status(Code::InputMismatch, 4001, spec.path + " is " + kind + ", a bare program takes arrays")
          .hint(has_pipeline_ ? "give .npy or .npz, or leave out --raw: the container has a pipeline"
                              : "give .npy or .npz; the container has no pipeline that would decode it (mlpack build --pipeline)");
    }
    for (NamedTensor& t : loaded.tensors) {
      const std::string& name = spec.name.empty() || loaded.tensors.size() > 1 ? t.name : spec.name;
      MLC_RETURN_IF_ERROR(place(name, std::move(t.tensor)));
    }
    return ok();
  }

  // A value that stands where a file is expected.
  Status meant_as_value(Status failed, const io::InputSpec& spec) const {
    const auto port = std::find_if(ports_.begin(), ports_.end(), [&](const MlcPort& p) { return is_called(p, spec.name); });
    if (failed.code != Code::NotFound || !failed.help.empty() || port == ports_.end()) return failed;
    if (port->dtype == MLC_STR) return std::move(failed).hint("strings are the lines of a file: -i " + shell_word(spec.name + "=FILE.txt"));
    if (spec.path.find_first_of("[](), ") == spec.path.npos) return failed;
    return std::move(failed).hint("numbers along one axis are -i " + shell_word(spec.name + "=1,2,3") + ", those of several axes a .npy file (numpy.save)");
  }

  // An input that takes strings and has none yet: of this name, or the first. A list of them takes an item each time.
  size_t input_for_lines(const std::string& name) const {
    for (size_t i = 0; i < ports_.size(); ++i)
      if (ports_[i].dtype == MLC_STR && (name.empty() || name == ports_[i].name) && (given_[i].empty() || ports_[i].list_depth > 0)) return i;
    return ports_.size();
  }

  // The lines of a text as an array: along its first free axis, the others being as long as they must be.
  static Result<HostTensor> lines_of(const MlcPort& port, Bytes bytes, const std::string& path) {
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.find('\0') != text.npos) return Status(Code::InputMismatch, 4001, path + " is no text, and " + port.name + " takes strings");
    std::vector<std::string> lines;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      lines.emplace_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    std::vector<int64_t> shape;
    int64_t rest = static_cast<int64_t>(lines.size());
    bool is_taken = port.list_depth > 0;
    if (is_taken) shape = {rest};
    for (uint32_t i = 0; i < port.rank; ++i) {
      shape.push_back(port.extents[i] >= 0 ? port.extents[i] : is_taken ? 1 : -1);
      is_taken = is_taken || port.extents[i] < 0;
      if (port.extents[i] > 0) rest = rest % port.extents[i] == 0 ? rest / port.extents[i] : -1;
    }
    for (int64_t& extent : shape)
      if (extent < 0) extent = rest;
    if (rest < 0 || (!is_taken && rest != 1))
      return Status(Code::InputMismatch, 4001, path + " has " + counted(lines.size(), "line") + ", " + port.name + " is " + port_text(port));
    return HostTensor::of_strings(std::move(shape), std::move(lines));
  }

  Status add_numbers(const io::InputSpec& spec) {
    const auto port = std::find_if(ports_.begin(), ports_.end(), [&](const MlcPort& p) { return is_called(p, spec.name); });
    if (port == ports_.end()) return unknown(spec.name);
    const std::vector<int64_t> extents(port->extents, port->extents + port->rank);
    MLC_ASSIGN(HostTensor numbers, io::tensor_of_numbers(spec, static_cast<DType>(port->dtype), extents));
    return place(spec.name, std::move(numbers));
  }

  static Status given_twice(const std::string& name) { return Status(Code::InputMismatch, 4001, "input '" + name + "' is given twice"); }

  Status unknown(const std::string& name) const {
    Status s(Code::InputMismatch, 4001, "there is no input '" + name + "'");
    for (const MlcPort& p : ports_) s.facts.push_back(std::string(p.name) + "   " + port_text(p));
    return s;
  }

  // Whether the input of this name, or the next one, is u8 [n]: a file may be its bytes, undecoded.
  bool takes_files(const std::string& name) const {
    for (size_t i = 0; i < ports_.size(); ++i)
      if (name.empty() ? given_[i].empty() : name == ports_[i].name)
        return ports_[i].list_depth == 0 && ports_[i].dtype == MLC_U8 && ports_[i].rank == 1 &&
               ports_[i].extents[0] < 0;
    return false;
  }

  // By its name, or as an item of a list: NAME or NAME.7, in the order in which they come.
  static bool is_called(const MlcPort& port, const std::string& name) {
    if (name == port.name) return true;
    const size_t dot = name.rfind('.');
    return port.list_depth > 0 && dot != std::string::npos && name.substr(0, dot) == port.name &&
           name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  }

  Status place(const std::string& name, HostTensor tensor) {
    for (size_t i = 0; i < ports_.size(); ++i) {
      // An array without a name is the first input that has none yet.
      const bool is_list = ports_[i].list_depth > 0;
      if (name.empty() ? !given_[i].empty() && !is_list : !is_called(ports_[i], name)) continue;
      if (!given_[i].empty() && !is_list) return given_twice(name);
      given_[i].push_back(std::move(tensor));
      return ok();
    }
    return name.empty() ? Status(Code::InputMismatch, 4001, "more arrays than the program has inputs") : unknown(name);
  }

  bool has_pipeline_;
  InputMemory& memory_;
  MadeUpInputs made_up_;
  std::vector<MlcPort> ports_;
  std::vector<std::vector<HostTensor>> given_;  // one tensor, or the items of a list
};

// Texts that are given one by one under one name are a list; those of files are copied into it.
class TextInputs {
 public:
  void add(const std::string& name, std::string text) { texts_[name].push_back(std::move(text)); }

  void give(std::vector<pipeline::GivenInput>& given) {
    for (auto& [name, texts] : texts_) {
      const auto count = static_cast<int64_t>(texts.size());
      given.push_back({name, {}, HostTensor::of_strings({count}, std::move(texts))});
    }
  }

 private:
  std::map<std::string, std::vector<std::string>> texts_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

// What a file holds; where the pipeline takes a file of any kind the bytes that it needs of it.
Result<io::LoadedInput> load(const mlio::Target& target, const io::InputSpec& spec, io::InputFiles& files, const io::DecodeLimits& limits) {
  const auto ends = spec.kind == io::InputSpec::Kind::File && spec.array.empty() ? target.pipeline->ends_of(spec.name) : std::nullopt;
  if (!ends) return io::load_input(spec, files, limits);
  MLC_ASSIGN(io::FileEnds found, files.read_ends(spec.path, ends->first, ends->last, limits.of_file().bytes));
  return mlio::of_ends(std::move(found));
}

// Numbers of the command line as the array that the pipeline takes: of the type and extents that the first program has for it.
Result<HostTensor> numbers_of(const OpenModel& model, const mlio::Target& target, const io::InputSpec& spec) {
  const pipeline::Pipeline& p = target.pipeline->description();
  for (const pipeline::Section& section : pipeline::sections(p)) {
    const auto found = std::find_if(section.in.begin(), section.in.end(), [&](pipeline::ValueId id) { return p.value(id).name == spec.name; });
    if (!section.is_array || found == section.in.end() || p.value(*found).accept != std::vector<std::string>{"application/x-npy"}) continue;
    MLC_ASSIGN(const uint32_t program, mlio::program_index(model, section.program));
    for (uint32_t i = 0; i < mlio::program_at(model, program).num_inputs; ++i) {
      const MlcPort port = mlio::port_at(model, program, false, i);
      if (spec.name == port.name) return io::tensor_of_numbers(spec, static_cast<DType>(port.dtype), std::vector<int64_t>(port.extents, port.extents + port.rank));
    }
  }
  return Status(Code::Usage, "'" + spec.name + "=" + spec.path + "' is a number, and the pipeline takes a file").hint("--raw feeds the bare program; a file of that name is ./" + spec.path);
}

Result<std::vector<NamedTensor>> pipeline_inputs(const OpenModel& model, const mlio::Target& target, const std::vector<io::InputSpec>& specs,
                                                 io::InputFiles& files, InputMemory& memory, bool without_sound) {
  std::vector<io::LoadedInput> loaded;
  std::vector<pipeline::GivenInput> given;
  loaded.reserve(specs.size());
  TextInputs texts;
  const std::vector<std::string> takes_text = text_names(target);
  for (const io::InputSpec& spec : specs) {
    if (spec.kind == io::InputSpec::Kind::Text) {
      memory.take_files(spec.path.size());
      texts.add(spec.name, spec.path);
      continue;
    }
    if (spec.kind == io::InputSpec::Kind::Random || spec.kind == io::InputSpec::Kind::Zeros)
      return Status(Code::Usage, "'random' and 'zeros' are arrays: add --raw to feed the bare program");
    if (spec.kind == io::InputSpec::Kind::Numbers) {
      MLC_ASSIGN(HostTensor numbers, numbers_of(model, target, spec));
      memory.take_files(bytes_held(numbers));
      given.push_back({spec.name, {}, std::move(numbers)});
      continue;
    }
    auto input = load(target, spec, files, memory.for_files());
    if (!input.ok() && input.status().code == Code::NotFound && !takes_text.empty())
      return std::move(input).status().hint("a text that is no file is given by the name of its input: -i " + shell_word(takes_text[0] + "=" + spec.path));
    if (!input.ok()) return std::move(input).status();
    loaded.push_back(std::move(*input));
    io::LoadedInput& l = loaded.back();
    memory.take_files(l.bytes.size());
    for (const NamedTensor& t : l.tensors) memory.take_files(bytes_held(t.tensor));
    if (l.tensors.empty() && std::find(takes_text.begin(), takes_text.end(), spec.name) != takes_text.end())
      texts.add(spec.name, std::string(pipeline::text_in(l.bytes.bytes())));
    else
      mlio::give(spec.name, l, given);
  }
  texts.give(given);
  const bool has_arrays = std::any_of(loaded.begin(), loaded.end(), [](const io::LoadedInput& l) { return !l.tensors.empty(); });
  const auto nameless = std::count_if(specs.begin(), specs.end(), [](const io::InputSpec& s) { return s.name.empty(); });
  auto before = without_sound ? target.pipeline->beside_sound(std::move(given), memory.for_files()) : target.pipeline->before(std::move(given), memory.for_files());
  if (!before.ok() && before.status().code == Code::InputMismatch && before.status().help.empty()) {
    if (has_arrays) return std::move(before).status().hint("--raw feeds arrays to the bare program");
    const size_t takes = target.pipeline->description().inputs.size();
    if (nameless > 1 && static_cast<size_t>(nameless) <= takes) return std::move(before).status().hint("-i NAME=FILE for each");
    if (nameless > 1) return std::move(before).status().hint("a run takes " + counted(takes, "file") + " here" + (takes == 1 ? ": --json-lines answers each of several" : ""));
  }
  MLC_ASSIGN(std::vector<NamedTensor> decoded, std::move(before));
  for (const NamedTensor& t : decoded) memory.take_files(bytes_held(t.tensor));
  return decoded;
}

}  // namespace

namespace {

// A file that the host's memory does not hold is not begun with; of one that may have no end a quarter of what is free is read, for what
// is read is copied on the way and decoded.
io::FileLimits file_limits() {
  const probe::Memory& host = probe::host().memory;
  io::FileLimits limits{.option = kMemoryOption};
  if (host.total_bytes > 0) limits.bytes = std::min(host.total_bytes, host.limit_bytes.value_or(UINT64_MAX));
  limits.unsized = host.effective_free_bytes > 0 ? std::min(kMostUnsized, host.effective_free_bytes / 4) : kMostUnsized;
  return limits;
}

}  // namespace

Result<InputMemory> InputMemory::allowed(const OpenModel& model, const LimitOptions& limits) {
  MLC_ASSIGN(const uint64_t given, memory_limit(limits));
  const bool is_trusted = model.info.native_allowed != 0;
  if (given != 0) return InputMemory(given, given != MLC_NO_LIMIT, is_trusted);
  const uint64_t free = probe::host().memory.effective_free_bytes;
  const uint64_t most = free > 0 ? free : UINT64_MAX;
  return InputMemory(is_trusted ? most : std::min(most, kUntrustedBytes), false, is_trusted);
}

io::DecodeLimits InputMemory::for_files() const {
  io::DecodeLimits limits;
  limits.together = !is_trusted_ && limit_ != MLC_NO_LIMIT;
  if (!is_given_) {
    if (limit_ != MLC_NO_LIMIT) limits.files = file_limits();
    return limits;
  }
  limits.files.option = kMemoryOption;
  limits.memory = limit_ - taken_;
  limits.all = true;
  return limits;
}

Status InputMemory::take_made_up(uint64_t bytes, const std::string& what) {
  if (bytes > limit_ - taken_)
    return Status(Code::Resource, 6006, "{} takes {} bytes, and {} are allowed for inputs", what, bytes, limit_ - taken_)
        .hint("--memory-limit, or smaller extents with --dim");
  taken_ += bytes;
  return ok();
}

void InputMemory::take_files(uint64_t bytes) { taken_ += std::min(bytes, limit_ - taken_); }

Result<pipeline::AnswerBudget> answer_budget(const OpenModel& model, const LimitOptions& limits) {
  MLC_ASSIGN(const uint64_t given, memory_limit(limits));
  if (given == 0) return mlio::answer_budget(model);
  return given == MLC_NO_LIMIT ? pipeline::AnswerBudget() : pipeline::AnswerBudget(given);
}

std::vector<std::string> input_names(const OpenModel& model, const mlio::Target& target) {
  std::vector<std::string> names;
  if (target.pipeline) {
    const pipeline::Pipeline& p = target.pipeline->description();
    for (pipeline::ValueId id : p.inputs) names.push_back(p.value(id).name);
  } else {
    for (uint32_t i = 0; i < mlio::program_at(model, target.program).num_inputs; ++i)
      names.emplace_back(mlio::port_at(model, target.program, false, i).name);
  }
  return names;
}

std::vector<std::string> text_names(const mlio::Target& target) {
  std::vector<std::string> names;
  if (!target.pipeline) return names;
  const pipeline::Pipeline& p = target.pipeline->description();
  for (const pipeline::ValueId id : p.inputs)
    if (p.value(id).kind == pipeline::ValueKind::Strings) names.push_back(p.value(id).name);
  return names;
}

std::vector<std::string> free_extents(const MlcPort& port) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < port.rank; ++i)
    if (port.extents[i] < 0 && std::find(names.begin(), names.end(), port.dims[i]) == names.end())
      names.emplace_back(port.dims[i]);
  return names;
}

std::string port_text(const MlcPort& p) {
  std::string out;
  for (uint32_t i = 0; i < p.list_depth; ++i) out += "list of ";
  out += name_of(static_cast<DType>(p.dtype));
  if (p.list_depth > 0) return out;
  out += "[";
  for (uint32_t i = 0; i < p.rank; ++i) {
    const std::string name = p.dims[i];
    const bool is_long = p.max[i] < 0 && columns_of(name) > kLongestExtent;
    out += (i ? "," : "") + (p.extents[i] >= 0 ? std::to_string(p.extents[i]) : is_long ? "?" : name);
  }
  return out + "]";
}

void add_input_options(const Command& command, InputOptions& o) {
  command.add_option("-i,--input,inputs", o.specs, "[NAME=]FILE, '-', random, zeros, NAME=12.5, NAME=1,2,3, NAME=TEXT or NAME=@FILE where a pipeline takes texts, FILE.npz:ARRAY or @FILE:f32[1,3]; images, .npy, .npz, lines of text");
  command.add_flag("--raw", o.raw, "feed arrays to the bare model, without the pipeline");
  command.add_option("--pipeline", o.pipeline, "which pipeline, where the file has several");
  command.add_option("--program", o.program, "which program to feed with --raw; default: main");
  command.add_option("--dim", o.dims, "NAME=N: a free extent of what is made up; default: as given arrays or the golden vector have it");
}

Result<mlio::Target> choose_target(const OpenModel& model, const InputOptions& o) {
  MLC_ASSIGN(mlio::Target target, mlio::choose_target(model, {o.raw, o.pipeline, o.program}));
  if (!target.pipeline && !o.pipeline.empty()) return Status(Code::Usage, "--pipeline: this run has no pipeline");
  if (target.pipeline && !o.program.empty()) return Status(Code::Usage, "--program needs --raw: a pipeline says what it runs");
  return target;
}

namespace {

Result<std::vector<io::InputSpec>> parsed_specs(const OpenModel& model, const mlio::Target& target, const InputOptions& o) {
  const std::vector<std::string> names = input_names(model, target), texts = text_names(target);
  std::vector<io::InputSpec> specs;
  for (const std::string& text : o.specs) {
    MLC_ASSIGN(io::InputSpec spec, io::parse_input_spec(text, names, texts));
    // What follows an unknown name may be a text, and is no file to look for.
    if (!texts.empty() && !spec.name.empty() && std::find(names.begin(), names.end(), spec.name) == names.end())
      return Status(Code::InputMismatch, 4001, "'{}' is no input of the pipeline", spec.name).fact("it has " + joined(names));
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

Result<std::vector<NamedTensor>> make_inputs_beside_sound(const OpenModel& model, const mlio::Target& target, const InputOptions& o,
                                                          io::InputFiles& files, InputMemory& memory) {
  MLC_ASSIGN(const std::vector<io::InputSpec> specs, parsed_specs(model, target, o));
  return pipeline_inputs(model, target, specs, files, memory, /*without_sound=*/true);
}

Result<std::vector<NamedTensor>> make_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& o,
                                             io::InputFiles& files, InputMemory& memory) {
  MLC_ASSIGN(const std::vector<io::InputSpec> specs, parsed_specs(model, target, o));
  if (target.pipeline && !o.dims.empty())
    return Status(Code::Usage, "--dim: the pipeline makes arrays of the sizes that its inputs have").hint("--raw -i random");
  if (target.pipeline) return pipeline_inputs(model, target, specs, files, memory, /*without_sound=*/false);
  MLC_ASSIGN(RawInputs inputs, RawInputs::of(model, target, o.dims, memory));
  MLC_RETURN_IF_ERROR(inputs.add_all(specs, files));
  return inputs.take();
}

Result<std::vector<NamedTensor>> make_up_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& o,
                                                InputMemory& memory) {
  auto bare = RawInputs::of(model, target, o.dims, memory);
  if (!bare.ok()) {
    const bool is_piped = target.pipeline && bare.status().code == Code::Usage;
    return is_piped ? std::move(bare).status().hint("--raw: extents of the bare program, which the pipeline feeds") : std::move(bare).status();
  }
  RawInputs& inputs = *bare;
  io::InputSpec random;
  random.kind = io::InputSpec::Kind::Random;
  io::InputFiles none;
  MLC_RETURN_IF_ERROR(inputs.add_all({random}, none));
  return inputs.take();
}

}  // namespace mlc::cli
