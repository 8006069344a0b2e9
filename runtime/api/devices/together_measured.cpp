#include "runtime/api/devices/together_measured.h"

#include <utility>

#include "signing/files/owned_file.h"
#include "signing/hash_tree.h"

namespace mlc::api {
namespace {

std::string key_of(const std::string& what) { return to_hex(sha256(what)); }

std::string path_in(const std::string& folder) { return folder + "/measured"; }

}  // namespace

Remembered::Remembered(std::string folder) : folder_(std::move(folder)), list_(load()) {}

ensemble::MeasuredList Remembered::load() const {
  if (folder_.empty()) return {};
  const auto text = signing::read_owned_file(path_in(folder_), ensemble::MeasuredList::kMostBytes);
  if (!text.ok() || !*text) return {};
  auto list = ensemble::MeasuredList::parse(**text);
  return list.ok() ? std::move(*list) : ensemble::MeasuredList();
}

const ensemble::MeasuredList::Numbers* Remembered::find(const std::string& what) const { return list_.find(key_of(what)); }

void Remembered::put(const std::string& what, ensemble::MeasuredList::Numbers numbers) { added_[key_of(what)] = std::move(numbers); }

Remembered::~Remembered() {
  if (folder_.empty() || added_.empty() || !signing::OwnedFolder::make(folder_).ok()) return;
  ensemble::MeasuredList list = load();  // again: another process may have added to it
  for (auto& [key, numbers] : added_) list.put(key, std::move(numbers));
  (void)signing::replace_file(path_in(folder_), list.encode(), 0600);
}

}  // namespace mlc::api
