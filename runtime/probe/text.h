// Small parsers for the text files of /proc and /sys. Each answers none for anything it does not fully understand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/probe/sources.h"

namespace mlc::probe {

std::string_view trimmed(std::string_view s);
std::optional<int64_t> parse_int(std::string_view s);
// Cuts the part before `separator` off `rest`; all of it if there is none.
std::string_view next_field(std::string_view& rest, char separator);
// "0-3,8,10-11", ascending, as the kernel writes it. Empty as well for what is not: numbers from 2^16 on, backward ranges, numbers that come
// twice. So no text makes a list of more than 65,536.
std::vector<int> parse_cpu_list(std::string_view s);
// Of two ascending lists.
std::vector<int> in_both(const std::vector<int>& a, const std::vector<int>& b);
// "32K", "8M", "123": bytes.
std::optional<uint64_t> parse_size(std::string_view s);

// Where the system describes a CPU.
std::string cpu_dir(int cpu);
// The text, or the number, in a file whose path is both names together; none if it cannot be read.
std::optional<std::string> read_in(const Sources& s, const std::string& folder, const char* file);
std::vector<int> cpus_in(const Sources& s, const std::string& folder, const char* file);  // empty: there is no list
std::optional<int64_t> int_in(const Sources& s, const std::string& folder, const char* file);

}  // namespace mlc::probe
