// Devices that another process tells of: their text, the process, and variants that want them.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <random>

#include "runtime/match/matcher.h"
#include "runtime/probe/devices.h"
#include "runtime/probe/probe.h"
#include "tests/support/source_path.h"

namespace mlc {
namespace {

device::Info some_device(int64_t version, bool software) {
  device::Info d;
  d.api = "vulkan";
  d.identity = software ? "00112233445566778899aabbccddeeff" : "ffeeddccbbaa99887766554433221100";
  d.title = software ? "llvmpipe" : "A card";
  d.driver = "some driver, 1.2";
  d.is_software = software;
  d.memory_bytes = uint64_t{8} << 30;
  d.facts = {{Feature::VkApi, version}, {Feature::VkShaderInt64, 1}, {Feature::VkStorage8, 0}};
  return d;
}

TEST_CASE("what devices told of themselves elsewhere is read, and written again as it was") {
  size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(mlc::testing::source_path("tests/unit/probe_devices/recorded"))) {
    CAPTURE(entry.path().string());
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto devices = probe::parse_device_text(text);
    REQUIRE_MESSAGE(devices.ok(), devices.status().text());
    CHECK(!devices->empty());
    CHECK(probe::device_text(*devices) == text);
    ++read;
  }
  CHECK(read > 0);
}

TEST_CASE("devices are read as they were written") {
  const std::vector<device::Info> all = {some_device(1300, false), some_device(1010, true)};
  const auto read = probe::parse_device_text(probe::device_text(all));
  REQUIRE(read.ok());
  REQUIRE(read->size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK((*read)[i].identity == all[i].identity);
    CHECK((*read)[i].title == all[i].title);
    CHECK((*read)[i].driver == all[i].driver);
    CHECK((*read)[i].is_software == all[i].is_software);
    CHECK((*read)[i].memory_bytes == all[i].memory_bytes);
    REQUIRE((*read)[i].facts.size() == 3);
    CHECK((*read)[i].facts[0].number == all[i].facts[0].number);
  }
  CHECK(probe::parse_device_text(probe::device_text({}))->empty());
  device::Info odd = some_device(1300, false);
  odd.title = "two\nlines\x1b[31m";
  const auto cleaned = probe::parse_device_text(probe::device_text(std::span(&odd, 1)));
  REQUIRE(cleaned.ok());
  CHECK((*cleaned)[0].title == "two?lines?[31m");
}

TEST_CASE("what two driver interfaces say of one UUID is one card") {
  std::vector<device::Info> found = {some_device(90, false), some_device(1300, false), some_device(1300, true)};
  found[0].api = "cuda";
  const auto cards = probe::cards_of(found);
  REQUIRE(cards.size() == 2);
  CHECK(cards[0].identity == found[0].identity);
  REQUIRE(cards[0].shown.size() == 2);
  CHECK(cards[0].shown[0] == &found[0]);
  CHECK(cards[0].shown[1] == &found[1]);
  CHECK(cards[1].shown == std::vector<const device::Info*>{&found[2]});
  CHECK(probe::cards_of({}).empty());
}

TEST_CASE("any other text is refused") {
  const device::Info d = some_device(1300, false);
  const std::string good = probe::device_text(std::span(&d, 1));
  const auto refused = [](const std::string& text) {
    const auto read = probe::parse_device_text(text);
    return !read.ok() && read.status().code == Code::Malformed && !read.status().message.empty();
  };
  CHECK(refused(""));
  CHECK(refused("end\n"));
  CHECK(refused(good + "x"));
  CHECK(refused(good + good));
  for (size_t n = 0; n < good.size(); ++n) CHECK(refused(good.substr(0, n)));
  const auto with = [&](const std::string& line) { return "mlrt-devices 1\ndevice vulkan " + d.identity + "\n" + line + "\nend\n"; };
  CHECK(!refused(with("fact vk.api 5")));
  CHECK(refused(with("fact vk.api 5\nfact vk.api 5")));
  CHECK(refused(with("fact vk.api")));
  CHECK(refused(with("fact vk.api 99999999999999999999")));
  CHECK(refused(with("fact x86.avx2 1")));
  CHECK(refused(with("fact nothing 1")));
  CHECK(refused(with("memory -1")));
  CHECK(refused(with("software 2")));
  CHECK(refused(with("title a\x07")));
  CHECK(refused(with("other 1")));
  CHECK(refused(with("device metal " + d.identity)));
  CHECK(refused(with("device vulkan 12")));
  CHECK(refused("mlrt-devices 1\nfact vk.api 5\nend\n"));
  CHECK(refused("mlrt-devices 2\nend\n"));
  CHECK(refused("mlrt-devices 1\n" + std::string(70'000, '\n')));
  std::string many = "mlrt-devices 1\n";
  for (int i = 0; i < 65; ++i) many += "device vulkan " + d.identity + "\n";
  CHECK(refused(many + "end\n"));
  std::mt19937_64 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string bad = good;
    for (uint64_t n = 1 + random() % 3; n; --n) bad[random() % bad.size()] = static_cast<char>(random());
    const auto read = probe::parse_device_text(bad);
    if (read.ok()) CHECK(probe::parse_device_text(probe::device_text(*read)).ok());
  }
}

// A program that does this when it is asked.
struct Program {
  explicit Program(const std::string& body) {
    char folder[] = "/tmp/mlc_probe_XXXXXX";
    if (::mkdtemp(folder)) path = std::string(folder) + "/program";
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    ::chmod(path.c_str(), 0700);
  }
  ~Program() {
    std::remove(path.c_str());
    std::remove(path.substr(0, path.rfind('/')).c_str());
  }
  std::string path;
};

TEST_CASE("a process that answers, fails, crashes, hangs or babbles") {
  constexpr uint64_t kSecond = 1'000'000'000;
  const auto answer = [](const std::string& body, uint64_t deadline) { return probe::ask_child(Program(body).path, "vulkan", deadline); };
  const std::string text = "printf 'mlrt-devices 1\\ndevice vulkan 00112233445566778899aabbccddeeff\\nend\\n'";
  const auto good = answer("[ \"$1 $2\" = 'probe-child vulkan' ] && " + text, 20 * kSecond);
  REQUIRE(good.ok());
  CHECK(good->size() == 1);
  CHECK(answer(text + "; sleep 100", 20 * kSecond).ok());  // nobody waits for what comes then
  const auto says = [](const Result<std::vector<device::Info>>& r, Code code, const char* what) {
    REQUIRE(!r.ok());
    CHECK(r.status().code == code);
    CHECK_MESSAGE(r.status().message.find(what) != std::string::npos, r.status().message);
  };
  says(answer("echo 'libvulkan.so.1 not found'; exit 3", 20 * kSecond), Code::NotFound, "libvulkan.so.1 not found");
  says(answer("exit 3", 20 * kSecond), Code::NotFound, "ended with 3");
  says(answer("kill -SEGV $$", 20 * kSecond), Code::Resource, "crashed with signal 11");
  says(answer("exec sleep 100", kSecond / 2), Code::Resource, "timed out");
  says(answer("exec yes", 20 * kSecond), Code::NotFound, "y");
  says(probe::ask_child("/nonexistent/program", "vulkan", kSecond), Code::NotFound, "cannot be started");
}

TEST_CASE("drivers that the user names are asked whatever the kernel shows") {
  for (const char* variable : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"}) {
    ::setenv(variable, "/nonexistent/icd.json", 1);
    CHECK(probe::may_have_graphics());
    ::unsetenv(variable);
  }
}

TEST_CASE("variants for devices fit on a device, and the token names it") {
  std::vector<format::Variant> variants(3);
  variants[0].name = "portable", variants[0].module_format = format::ModuleFormat::Portable;
  variants[1].name = "vulkan-base", variants[1].family = "vulkan", variants[1].module_format = format::ModuleFormat::Spirv;
  variants[1].features = {static_cast<uint32_t>(Feature::VkShaderInt64)};
  variants[1].clauses = {{static_cast<uint32_t>(Feature::VkApi), format::ClauseOp::AtLeast, {1100}}};
  variants[2].name = "native", variants[2].module_format = format::ModuleFormat::Elf;
  std::list<std::vector<NamedDevice>> kept;
  const auto matcher = [&](std::vector<NamedDevice> devices, std::string_view why = {}) {
    MatchPolicy policy;
    policy.devices = kept.emplace_back(std::move(devices));
    policy.why_no_vulkan = why;
    policy.why_no_cuda = "no card";
    return Matcher(probe::host(), variants, policy);
  };
  Matcher two = matcher({{"gpu0", some_device(1010, true)}, {"gpu1", some_device(1300, false)}});
  REQUIRE(two.device_of(1));
  CHECK(two.device_of(1)->name == "gpu1");
  CHECK(!two.device_of(2));
  CHECK(two.candidates("", "")->front() == 1);
  CHECK(two.candidates("", "vulkan")->size() == 1);
  CHECK(two.admit(1)->device() == some_device(1300, false).identity);
  CHECK(two.admit(2)->device().empty());

  Matcher old = matcher({{"gpu0", some_device(1010, true)}});
  CHECK(!old.assessments()[1].fits);
  CHECK(old.assessments()[1].reason().find("vk.api >= 1100") != std::string::npos);
  CHECK(old.assessments()[1].reason().find("gpu0") != std::string::npos);
  CHECK(old.candidates("", "")->front() == 2);
  const auto required = old.candidates("", "vulkan");
  REQUIRE(!required.ok());
  CHECK(required.status().code == Code::NoVariant);

  variants[1].features = {static_cast<uint32_t>(Feature::VkStorage8)};  // said to be off
  CHECK(!matcher({{"gpu1", some_device(1300, false)}}).assessments()[1].fits);
  variants[1].features = {static_cast<uint32_t>(Feature::VkStorage16)};  // said nothing of
  CHECK(matcher({{"gpu1", some_device(1300, false)}}).assessments()[1].unknown);
  variants[1].features.clear();
  CHECK(matcher({{"gpu1", some_device(1300, false)}}).assessments()[1].fits);
  const Matcher none = matcher({}, "nobody asked");
  CHECK(!none.assessments()[1].fits);
  CHECK(none.assessments()[1].reason() == "nobody asked");
  variants[1].module_format = format::ModuleFormat::Ptx;
  CHECK(matcher({{"gpu1", some_device(1300, false)}}).assessments()[1].reason() == "no card");
  variants[1].module_format = format::ModuleFormat::Spirv;
  for (const Feature feature : {Feature::RvV, Feature::A64Dotprod, Feature::X86Avx512f, Feature::VkStorage16}) {  // what no probe looked for has a source, too
    variants[1].features = {static_cast<uint32_t>(feature)};
    CHECK(matcher({{"gpu1", some_device(1300, false)}}).assessments()[1].reason().find("()") == std::string::npos);
  }
}

}  // namespace
}  // namespace mlc
