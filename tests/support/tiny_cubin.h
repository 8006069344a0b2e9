// Cubins with nothing but what a reader looks at: tables of names, symbols and sections.
#pragma once

#include <cstring>
#include <string>
#include <vector>

namespace mlc::testing {

struct TinyCubin {
  struct Entry {
    std::string name;
    uint64_t shared_bytes = 0;
  };
  uint32_t architecture = 80;
  std::vector<Entry> entries;
  std::string text;               // of a section that the libcuda of the tests runs
  std::string import, section;    // a function that is not in it; a section of that name
  bool is_abi_8 = true;           // of CUDA 13

  std::vector<std::byte> bytes() const {
    struct Section {
      std::string name;
      uint32_t type = 1;
      uint64_t flags = 0, size = 0;
      std::string content;
      uint32_t link = 0;
    };
    std::vector<Section> sections(4);
    sections[1] = {".shstrtab", 3, 0, 0, {}, 0};
    sections[2] = {".strtab", 3, 0, 0, std::string(1, '\0'), 0};
    sections[3] = {".symtab", 2, 0, 0, std::string(24, '\0'), 2};
    const auto symbol = [&](const std::string& name, uint8_t info, uint8_t other, uint16_t section_number) {
      std::string& table = sections[3].content;
      put(table, sections[2].content.size(), 4), put(table, info, 1), put(table, other, 1), put(table, section_number, 2), put(table, 0, 16);
      sections[2].content += name + '\0';
    };
    for (const Entry& e : entries) {
      sections.push_back({".text." + e.name, 1, 6, 0, std::string(16, '\x5a'), 0});
      symbol(e.name, 0x12, 0x10, static_cast<uint16_t>(sections.size() - 1));
      if (e.shared_bytes) sections.push_back({".nv.shared." + e.name, 8, 3, e.shared_bytes, {}, 0});
    }
    if (!import.empty()) symbol(import, 0x12, 0, 0);
    if (!section.empty()) sections.push_back({section, 1, 3, 0, "memory", 0});
    if (!text.empty()) sections.push_back({".note.text", 7, 0, 0, text, 0});
    std::string names(1, '\0');
    std::vector<uint64_t> name_at(1, 0);
    for (size_t k = 1; k < sections.size(); ++k) name_at.push_back(names.size()), names += sections[k].name + '\0';
    sections[1].content = names;

    std::string file("\x7f" "ELF\x02\x01\x01", 7);
    put(file, is_abi_8 ? 65 : 51, 1), put(file, is_abi_8 ? 8 : 7, 1), put(file, 0, 7);
    put(file, 2, 2), put(file, 190, 2), put(file, 1, 4), put(file, 0, 16);
    uint64_t table = 64;
    for (const Section& s : sections) table += s.content.size();
    put(file, table, 8), put(file, is_abi_8 ? architecture << 8 | 4 : architecture << 16 | 0x500 | architecture, 4);
    put(file, 64, 2), put(file, 0, 4), put(file, 64, 2), put(file, sections.size(), 2), put(file, 1, 2);
    std::string heads;
    for (size_t k = 0; k < sections.size(); ++k) {
      const Section& s = sections[k];
      put(heads, name_at[k], 4), put(heads, k ? s.type : 0, 4), put(heads, s.flags, 8), put(heads, 0, 8), put(heads, file.size(), 8);
      put(heads, s.type == 8 ? s.size : s.content.size(), 8), put(heads, s.link, 4), put(heads, 0, 20);
      file += s.content;
    }
    file += heads;
    std::vector<std::byte> out(file.size());
    std::memcpy(out.data(), file.data(), file.size());
    return out;
  }

 private:
  static void put(std::string& out, uint64_t value, size_t width) {
    for (size_t k = 0; k < width; ++k) out += k < 8 ? static_cast<char>(value >> 8 * k) : '\0';
  }
};

}  // namespace mlc::testing
