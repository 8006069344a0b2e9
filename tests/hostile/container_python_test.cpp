// libs: mlc_container_reader mlc_container_writer
// Two readers, one format: the Python reader (tests/support/mlc_reader.py, written from the specification) must agree
// on verdict, root, placement and tensor bytes. It knows fewer rules of the manifest, so for edits of the manifest that
// are signed again only one direction is asked: what this reader accepts, Python accepts as the same.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/containers/bad_container.h"
#include "tests/support/containers/container_script.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;
using nlohmann::json;

namespace {

struct Subject {
  std::string what;
  std::vector<std::byte> bytes;
  bool both_ways = true;
};

void add_damaged(std::vector<Subject>& subjects, const std::vector<std::byte>& good) {
  for (size_t at = 0; at < good.size(); at += at < 4096 ? 29 : 211) {
    auto bytes = good;
    bytes[at] ^= std::byte(1u << (at % 8));
    subjects.push_back({"changed at " + std::to_string(at), std::move(bytes)});
  }
  for (size_t len = 0; len < good.size(); len += 1009)
    subjects.push_back({"cut to " + std::to_string(len), {good.begin(), good.begin() + static_cast<ptrdiff_t>(len)}});
  for (size_t more : {1u, 16u, 4096u}) {
    auto bytes = good;
    bytes.insert(bytes.end(), more, std::byte{0});
    subjects.push_back({"longer by " + std::to_string(more), std::move(bytes)});
  }
}

std::vector<Subject> make_subjects() {
  std::vector<Subject> subjects;
  const auto good = sample_bytes();
  subjects.push_back({"signed", good});
  subjects.push_back({"unsigned", sample_bytes({}, nullptr)});
  subjects.push_back({"page segments", sample_bytes({.weights_len = (5u << 20) + 4, .module_len = 100'000})});
  Parts thin = take_apart(good);
  for (size_t i = 0; i < thin.present.size(); ++i) thin.present[i] = !thin.manifest.segments[i].droppable;
  subjects.push_back({"thin", assemble(thin)});
  add_damaged(subjects, good);
  const Parts parts = take_apart(good);
  for (uint32_t seed = 0; seed < 120; ++seed) {
    Parts edited = parts;
    auto script = noise(4 * (1 + seed % 3), seed * 2654435761u);
    edited.change_manifest_bytes = [&](std::vector<std::byte>& m) { apply_edits(script, m); };
    subjects.push_back({"manifest edit " + std::to_string(seed), assemble(edited), /*both_ways=*/false});
  }
  return subjects;
}

// What this reader says, in the words of the other one.
json judge(const Subject& subject) {
  auto opened = Container::open_memory(subject.bytes, "subject", trusting(Verify::Full));
  if (!opened.ok()) return {{"ok", false}, {"why", opened.status().message}};
  const Container& c = **opened;
  const format::Manifest& m = c.manifest();
  json out = {{"ok", true}, {"root", to_hex(c.root())}, {"model", m.model.id}, {"body_size", c.body_size()}};
  out["keys"] = json::array();
  for (const auto& signature : c.verdict().signatures) out["keys"].push_back(signature.key_id);
  for (uint32_t i = 0; i < m.segments.size(); ++i) {
    out["segments"].push_back(m.segments[i].name);
    out["offsets"].push_back(c.segment_offset(i));
  }
  for (uint32_t i = 0; i < m.tensors.size(); ++i) {
    const format::Tensor& t = m.tensors[i];
    auto pointer = c.acquire_tensor(i);
    REQUIRE(pointer.ok());
    Bytes stored = t.copies.empty() ? Bytes() : Bytes(*pointer, t.copies[0].ref.length);
    out["tensors"].push_back(
        {{"name", t.name}, {"shape", t.shape}, {"content", to_hex(t.content)}, {"sha256", to_hex(sha256(stored))}});
  }
  for (const auto& v : m.variants) out["variants"].push_back(v.name);
  for (const auto& method : m.methods) {
    json inputs = json::array(), outputs = json::array();
    for (const auto& port : method.inputs) inputs.push_back(port.name);
    for (const auto& port : method.outputs) outputs.push_back(port.name);
    out["methods"].push_back({method.name, inputs, outputs});
  }
  return out;
}

std::vector<json> ask_python(const std::vector<Subject>& subjects, const std::filesystem::path& folder) {
  std::string command = "cd '" + folder.string() + "' && python3 '" + mlc::testing::source_path("tests/support/mlc_reader.py") + "'";
  for (size_t i = 0; i < subjects.size(); ++i) {
    std::string name = std::to_string(i) + ".mlc";
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(subjects[i].bytes.data()),
               static_cast<std::streamsize>(subjects[i].bytes.size()));
    command += " " + name;
  }
  std::vector<json> answers;
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char* line = nullptr;
  size_t capacity = 0;
  while (::getline(&line, &capacity, pipe) > 0) answers.push_back(json::parse(line, nullptr, false));
  ::free(line);
  CHECK(::pclose(pipe) == 0);
  return answers;
}

}  // namespace

TEST_CASE("A reader in another language, written from the specification, agrees") {
  if (std::system("python3 -c pass 2>/dev/null") != 0) {
    MESSAGE("skipped: no python3");
    return;
  }
  const auto folder = std::filesystem::temp_directory_path() / ("mlc_python_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto subjects = make_subjects();
  const auto answers = ask_python(subjects, folder);
  std::filesystem::remove_all(folder);
  REQUIRE(answers.size() == subjects.size());
  size_t accepted = 0;
  for (size_t i = 0; i < subjects.size(); ++i) {
    CAPTURE(subjects[i].what);
    json mine = judge(subjects[i]);
    REQUIRE(answers[i].is_object());
    if (mine["ok"] == true) {
      ++accepted;
      CHECK_MESSAGE(answers[i] == mine, answers[i].dump() << "\n" << mine.dump());
    } else if (subjects[i].both_ways) {
      CHECK_MESSAGE(answers[i]["ok"] == false, mine["why"]);
    }
  }
  CHECK(accepted >= 4);
  MESSAGE(subjects.size() << " files, " << accepted << " accepted by both");
}
