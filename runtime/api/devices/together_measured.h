// What was measured of devices, remembered in a folder for later processes. Nothing depends on it but time: a list that cannot be
// read or written is none. Of libmlrt-gpu.
#pragma once

#include <map>
#include <string>

#include "runtime/ensemble/measure/measured.h"

namespace mlc::api {

class Remembered {
 public:
  explicit Remembered(std::string folder);  // empty: nothing is remembered
  ~Remembered();                            // writes what was put
  Remembered(const Remembered&) = delete;

  // `what`: all that the numbers depend on, as text.
  const ensemble::MeasuredList::Numbers* find(const std::string& what) const;
  void put(const std::string& what, ensemble::MeasuredList::Numbers numbers);

 private:
  ensemble::MeasuredList load() const;

  const std::string folder_;
  ensemble::MeasuredList list_;
  std::map<std::string, ensemble::MeasuredList::Numbers> added_;  // by key
};

}  // namespace mlc::api
