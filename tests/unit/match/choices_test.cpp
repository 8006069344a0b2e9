#include "runtime/match/choices.h"
#include "runtime/match/fastest.h"

#include <random>

#include <doctest/doctest.h>

#include "runtime/probe/probe.h"
#include "tests/support/fake_sources.h"

using namespace mlc;
using namespace mlc::match;

namespace {

Digest root_named(char c) {
  Digest root;
  root.fill(static_cast<std::byte>(c));
  return root;
}

std::vector<format::Variant> three() {
  std::vector<format::Variant> out(3);
  out[0].name = "fast", out[1].name = "slow", out[2].name = "portable";
  for (int i = 0; i < 2; ++i) out[i].family = "cpu", out[i].module_format = format::ModuleFormat::Elf;
  out[2].family = "portable", out[2].module_format = format::ModuleFormat::Portable;
  return out;
}

}  // namespace

TEST_CASE("what is put into a list of choices is found again, and only by the same container on the same machine") {
  const Fingerprints here{std::string(32, 'a'), std::string(32, 'b')}, elsewhere{std::string(32, 'c'), std::string(32, 'd')};
  ChoiceList list;
  const std::vector<RememberedVariant> two = {{"x86-64-v3", 1000, true}, {"a name%", 2000, false}};
  list.put_measured(root_named(1), here, two);
  list.put_fault(root_named(1), here, "x86-64-v4", "illegal instruction\n100%");
  const ChoiceList again = ChoiceList::parse(list.encode());
  CHECK(again.encode() == list.encode());
  const auto found = again.measured(root_named(1), here);
  REQUIRE(found.size() == 2);
  CHECK((found[1].variant == "x86-64-v3" && found[1].ns == 1000 && found[1].is_chosen));
  CHECK((found[0].variant == "a name%" && found[0].ns == 2000 && !found[0].is_chosen));
  REQUIRE(again.faults(root_named(1), here).size() == 1);
  CHECK(again.faults(root_named(1), here)[0].reason == "illegal instruction\n100%");
  CHECK(again.measured(root_named(2), here).empty());
  CHECK(again.measured(root_named(1), elsewhere).empty());
  CHECK(again.faults(root_named(1), elsewhere).empty());
}

TEST_CASE("a measurement replaces the one before, a fault stays until it is forgotten") {
  const Fingerprints here{std::string(32, 'a'), std::string(32, 'b')};
  ChoiceList list;
  list.put_fault(root_named(1), here, "v", "memory fault");
  list.put_fault(root_named(1), here, "v", "memory fault");
  const std::vector<RememberedVariant> first = {{"v", 1, true}, {"w", 2, false}}, second = {{"w", 3, true}};
  list.put_measured(root_named(1), here, first);
  list.put_measured(root_named(2), here, first);
  list.put_measured(root_named(1), here, second);
  CHECK(list.measured(root_named(1), here).size() == 1);
  CHECK(list.measured(root_named(2), here).size() == 2);
  CHECK(list.faults(root_named(1), here).size() == 1);
  const Digest one = root_named(1), none = root_named(9);
  CHECK(ChoiceList::parse(list.encode(), &one).measured(one, here).size() == 1);
  CHECK(ChoiceList::parse(list.encode(), &one).measured(root_named(2), here).empty());
  CHECK(ChoiceList::parse(list.encode(), &none).encode().empty());
  CHECK(list.forget(root_named(1)));
  CHECK_FALSE(list.forget(root_named(1)));
  CHECK(list.faults(root_named(1), here).empty());
  CHECK(list.measured(root_named(2), here).size() == 2);
}

TEST_CASE("each program has its own measurements, and those that name none hold for programs without") {
  const Fingerprints here{std::string(32, 'a'), std::string(32, 'b')};
  const std::string old = "chosen " + to_hex(root_named(1)) + " " + here.perf + " v 5\n";  // of a version that measured one program for all
  ChoiceList list = ChoiceList::parse(old);
  REQUIRE(list.measured(root_named(1), here, "read").size() == 1);
  CHECK(list.measured(root_named(1), here, "read")[0].is_chosen);
  const std::vector<RememberedVariant> read = {{"w", 7, true, "read"}, {"v", 9, false, "read"}}, odd = {{"v", 4, true, "a name %"}};
  list.put_measured(root_named(1), here, read);
  list.put_measured(root_named(1), here, odd);
  const ChoiceList again = ChoiceList::parse(list.encode());
  CHECK(again.encode() == list.encode());
  CHECK(list.encode().starts_with(old));
  CHECK(again.measured(root_named(1), here, "read").size() == 2);
  REQUIRE(again.measured(root_named(1), here, "a name %").size() == 1);
  CHECK(again.measured(root_named(1), here, "a name %")[0].ns == 4);
  for (const std::string& program : {std::string(), std::string("other")}) {
    REQUIRE(again.measured(root_named(1), here, program).size() == 1);
    CHECK(again.measured(root_named(1), here, program)[0].ns == 5);
  }
  const std::vector<RememberedVariant> later = {{"v", 1, true, "read"}};
  list.put_measured(root_named(1), here, later);
  CHECK(list.measured(root_named(1), here, "read").size() == 1);
  CHECK(list.measured(root_named(1), here, "a name %").size() == 1);
  CHECK(list.forget(root_named(1)));
  CHECK(list.encode().empty());
}

TEST_CASE("lines that are none are passed over, and a list has an end") {
  const Fingerprints here{std::string(32, 'a'), std::string(32, 'b')};
  ChoiceList list;
  list.put_fault(root_named(1), here, "v", "memory fault");
  const std::string good = list.encode();
  for (const std::string& bad : std::vector<std::string>{"", "\n", "fault", "fault a b c d", "chosen " + std::string(64, '0') + " " + std::string(32, 'a') + " v 1x", "chosen " + std::string(64, '0') + " " + std::string(32, 'a') + " v",
                                "chosen " + std::string(64, '0') + " " + std::string(32, 'a') + " v 1 ", "chosen " + std::string(64, '0') + " " + std::string(32, 'a') + " v 1 p q",
                                "chosen " + std::string(64, '0') + " " + std::string(32, 'a') + " %4 1", "odd " + std::string(64, '0') + " " + std::string(32, 'a') + " v 1", "fault " + std::string(64, '0') + " " + std::string(32, 'a') + " v \x01"})
    CHECK(ChoiceList::parse(bad + "\n" + good + bad).encode() == good);
  for (uint64_t i = 0; i < 5000; ++i) list.put_fault(root_named(static_cast<char>(i)), here, "v" + std::to_string(i), "memory fault");
  CHECK(list.encode().size() <= kMostChoiceBytes);
  const ChoiceList tail = ChoiceList::parse(list.encode() + list.encode());
  CHECK(tail.faults(root_named(static_cast<char>(4999)), here).front().variant == "v4999");
}

TEST_CASE("a choice orders what fits, a fault takes it out and is told, and names of other files are passed over") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  const auto all = three();
  const Fingerprints here = fingerprints(record, {});
  const auto order = [&](const ChoiceList& list, std::vector<std::string>& notes) {
    Matcher matcher(record, all);
    apply_faults(list, root_named(1), here, all, matcher, notes);
    matcher.remember(measured_of(list, root_named(1), here, all, matcher, "main"));
    std::string text;
    const auto candidates = matcher.candidates({}, {});
    for (const uint32_t i : *candidates) text += all[i].name + " ";
    return text;
  };
  std::vector<std::string> notes;
  ChoiceList list;
  CHECK(order(list, notes) == "fast slow portable ");
  const std::vector<RememberedVariant> slow = {{"slow", 10, true}, {"fast", 20, false}, {"of another file", 1, true}};
  list.put_measured(root_named(1), here, slow);
  CHECK(order(list, notes) == "slow fast portable ");
  CHECK(notes.empty());
  list.put_fault(root_named(1), here, "slow", "memory fault");
  list.put_fault(root_named(1), here, "portable", "a lie");  // the last that there is stays
  CHECK(order(list, notes) == "fast portable ");
  CHECK(notes == std::vector<std::string>{"slow is left out since it failed here: memory fault"});
}

TEST_CASE("a machine that gains a feature, a processor or a driver is another one") {
  auto sources = test::FakeSources::x86_v4();
  const auto record = probe::run(sources);
  const Fingerprints here = fingerprints(record, {});
  CHECK(here.safety.size() == 32);
  CHECK(here.safety != here.perf);
  auto other = record;
  other.topology.workers += 1;
  CHECK(fingerprints(other, {}).safety == here.safety);
  CHECK(fingerprints(other, {}).perf != here.perf);
  sources.xcr0 = 7;
  CHECK(fingerprints(probe::run(sources), {}).safety != here.safety);
  std::vector<NamedDevice> devices(1);
  devices[0].name = "gpu0", devices[0].info.driver = "1.2";
  const Fingerprints with = fingerprints(record, devices);
  CHECK(with.safety != here.safety);
  devices[0].info.driver = "1.3";
  CHECK(fingerprints(record, devices).safety != with.safety);
}

TEST_CASE("what a busy machine adds does not flip a choice, and a real difference does") {
  std::mt19937 random(7);
  const auto drawn = [&](double mean, double spread, size_t rounds) {
    std::uniform_real_distribution<double> noise(1 - spread, 1 + spread);
    std::vector<uint64_t> out;
    for (size_t i = 0; i < rounds; ++i) out.push_back(static_cast<uint64_t>(mean * noise(random)));
    return out;
  };
  for (int turn = 0; turn < 500; ++turn) {
    const std::vector<std::vector<uint64_t>> alike = {drawn(1e6, 0.15, 15), drawn(1e6, 0.15, 15), drawn(1e6, 0.15, 15)};
    CHECK(fastest_variant(alike) == 0);
    const std::vector<std::vector<uint64_t>> different = {drawn(1e6, 0.05, 15), drawn(1.2e6, 0.05, 15), drawn(0.6e6, 0.05, 15), drawn(0.8e6, 0.05, 15)};
    CHECK(fastest_variant(different) == 2);
  }
  const std::vector<std::vector<uint64_t>> few = {drawn(1e6, 0, 14), drawn(1e5, 0, 14)};
  CHECK(fastest_variant(few) == 0);
  CHECK(fastest_variant({}) == 0);
  CHECK(quantile({}, 0.5) == 0);
  CHECK(quantile({3, 1, 2}, 0.5) == 2);
}
