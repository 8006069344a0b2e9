#include "runtime/cli/program_io.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include <CLI/CLI.hpp>

#include "base/nearest_name.h"
#include "runtime/io/input_spec.h"

namespace mlc::cli {
namespace {

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

std::string port_text(const MlcPort& p) {
  std::string out;
  for (uint32_t i = 0; i < p.list_depth; ++i) out += "list of ";
  out += name_of(static_cast<DType>(p.dtype));
  if (p.list_depth > 0) return out;
  out += "[";
  for (uint32_t i = 0; i < p.rank; ++i)
    out += (i ? "," : "") + (p.extents[i] >= 0 ? std::to_string(p.extents[i]) : std::string(p.dims[i]));
  return out + "]";
}

using Dims = std::map<std::string, int64_t>;

Result<Dims> parse_dims(const std::vector<std::string>& given) {
  Dims dims;
  for (const std::string& text : given) {
    const size_t equals = text.find('=');
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const char* begin = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto r = std::from_chars(begin, end, value);
    if (r.ec != std::errc() || r.ptr != end || value < 0)
      return Status(Code::Usage, "--dim: '" + text + "' is not of the form NAME=N");
    dims[text.substr(0, equals)] = value;
  }
  return dims;
}

// A made-up tensor for a port: named extents as given by --dim, else their smallest value but at least 1.
Result<HostTensor> made_up(const MlcPort& port, const Dims& dims, bool random, uint64_t seed) {
  if (port.list_depth > 0)
    return Status(Code::InputMismatch, 4001, std::string(port.name) + " is a list, which is not made up")
        .hint("-i " + std::string(port.name) + "=FILE.npy for each item, in order");
  if (port.dtype == MLC_STR)
    return Status(Code::InputMismatch, 4001, std::string(port.name) + " takes strings, which are not made up")
        .hint("-i " + std::string(port.name) + "=FILE.npy, an array of U or S elements, or =FILE.txt, a line for each");
  std::vector<int64_t> shape;
  for (uint32_t i = 0; i < port.rank; ++i) {
    if (port.extents[i] >= 0) {
      shape.push_back(port.extents[i]);
    } else if (auto d = dims.find(port.dims[i]); d != dims.end()) {
      shape.push_back(d->second);
    } else if (port.max[i] < 0) {  // an expression: it follows from other extents
      return Status(Code::InputMismatch, 4001, std::string(port.name) + ": extent '" + port.dims[i] + "' is not known")
          .hint("--dim " + std::string(port.dims[i]) + "=N, or give an array");
    } else {
      shape.push_back(std::max<int64_t>(1, port.min[i]));
    }
  }
  MLC_ASSIGN(HostTensor t, HostTensor::zeros(static_cast<DType>(port.dtype), std::move(shape)));
  if (random) io::fill_random(t, seed);
  return t;
}

// Bare arrays for the ports of a program.
class RawInputs {
 public:
  RawInputs(const OpenModel& model, uint32_t program, Dims dims) : model_(model), program_(program), dims_(std::move(dims)) {
    for (uint32_t i = 0; i < mlio::program_at(model, program).num_inputs; ++i) ports_.push_back(mlio::port_at(model, program, false, i));
    given_.resize(ports_.size());
  }

  // Every --dim names a free extent of some input.
  Status check_dims() const {
    std::vector<std::string> known;
    for (const MlcPort& p : ports_)
      for (uint32_t i = 0; i < p.rank; ++i)
        if (p.extents[i] < 0) known.emplace_back(p.dims[i]);
    for (const auto& [name, value] : dims_) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      Status s(Code::Usage, "--dim: " + unknown_word("extent", name, known));
      for (const MlcPort& p : ports_) s.facts.push_back(std::string(p.name) + "   " + port_text(p));
      return s;
    }
    return ok();
  }

  Status add(const io::InputSpec& spec, io::InputFiles& files) {
    using Kind = io::InputSpec::Kind;
    if (spec.kind == Kind::Random || spec.kind == Kind::Zeros) {
      bool any = false;
      for (size_t i = 0; i < ports_.size(); ++i) {
        if (!spec.name.empty() ? spec.name != ports_[i].name : !given_[i].empty()) continue;
        MLC_ASSIGN(HostTensor made, made_up(ports_[i], dims_, spec.kind == Kind::Random, i + 1));
        given_[i].clear();
        given_[i].push_back(std::move(made));
        any = true;
      }
      return any || spec.name.empty() ? ok() : unknown(spec.name);
    }
    MLC_ASSIGN(io::LoadedInput loaded, io::load_input(spec, files));
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
          .hint("give .npy or .npz, or leave out --raw if the container has a pipeline");
    }
    for (NamedTensor& t : loaded.tensors) {
      const std::string& name = spec.name.empty() || loaded.tensors.size() > 1 ? t.name : spec.name;
      MLC_RETURN_IF_ERROR(place(name, std::move(t.tensor)));
    }
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
      return Status(Code::InputMismatch, 4001, path + " has " + std::to_string(lines.size()) + " lines, " + port.name + " is " + port_text(port));
    return HostTensor::of_strings(std::move(shape), std::move(lines));
  }

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
      if (!given_[i].empty() && !is_list) return Status(Code::InputMismatch, 4001, "input '" + name + "' is given twice");
      given_[i].push_back(std::move(tensor));
      return ok();
    }
    return name.empty() ? Status(Code::InputMismatch, 4001, "more arrays than the program has inputs") : unknown(name);
  }

  const OpenModel& model_;
  uint32_t program_;
  Dims dims_;
  std::vector<MlcPort> ports_;
  std::vector<std::vector<HostTensor>> given_;  // one tensor, or the items of a list
};

Result<std::vector<NamedTensor>> pipeline_inputs(const mlio::Target& target, const std::vector<io::InputSpec>& specs,
                                                 io::InputFiles& files) {
  std::vector<io::LoadedInput> loaded;
  std::vector<pipeline::GivenInput> given;
  loaded.reserve(specs.size());
  for (const io::InputSpec& spec : specs) {
    if (spec.kind == io::InputSpec::Kind::Random || spec.kind == io::InputSpec::Kind::Zeros)
      return Status(Code::Usage, "'random' and 'zeros' are arrays: add --raw to feed the bare program");
    MLC_ASSIGN(io::LoadedInput input, io::load_input(spec, files));
    loaded.push_back(std::move(input));
    mlio::give(spec.name, loaded.back(), given);
  }
  return target.pipeline->before(std::move(given));
}

}  // namespace

void add_input_options(CLI::App& app, InputOptions& o) {
  app.add_option("-i,--input", o.specs, "[NAME=]FILE, '-', random, zeros or @FILE:f32[1,3]; images, .npy, .npz, lines of text");
  app.add_flag("--raw", o.raw, "feed arrays to the bare model, without the pipeline");
  app.add_option("--pipeline", o.pipeline, "which pipeline, where the file has several");
  app.add_option("--program", o.program, "which program to feed with --raw; default: main");
  app.add_option("--dim", o.dims, "NAME=N: a free extent for random and zeros");
}

Result<mlio::Target> choose_target(const OpenModel& model, const InputOptions& o) {
  MLC_ASSIGN(mlio::Target target, mlio::choose_target(model, {o.raw, o.pipeline, o.program}));
  if (!target.pipeline && !o.pipeline.empty()) return Status(Code::Usage, "--pipeline: this run has no pipeline");
  if (target.pipeline && !o.program.empty()) return Status(Code::Usage, "--program needs --raw: a pipeline says what it runs");
  return target;
}

Result<std::vector<NamedTensor>> make_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& o,
                                             io::InputFiles& files) {
  const std::vector<std::string> names = input_names(model, target);
  std::vector<io::InputSpec> specs;
  for (const std::string& text : o.specs) {
    MLC_ASSIGN(io::InputSpec spec, io::parse_input_spec(text, names));
    specs.push_back(std::move(spec));
  }
  if (target.pipeline) return pipeline_inputs(target, specs, files);
  MLC_ASSIGN(Dims dims, parse_dims(o.dims));
  RawInputs inputs(model, target.program, std::move(dims));
  MLC_RETURN_IF_ERROR(inputs.check_dims());
  for (const io::InputSpec& spec : specs) MLC_RETURN_IF_ERROR(inputs.add(spec, files));
  return inputs.take();
}

}  // namespace mlc::cli
