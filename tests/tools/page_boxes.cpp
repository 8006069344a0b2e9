// The text boxes of a map, or a part of a picture, as host steps make them, for page_boxes_test.py.
//
//   page_boxes boxes MAP.npy HEIGHT WIDTH THRESHOLD BOX_THRESHOLD UNCLIP_RATIO MIN_SIDE MAX_CANDIDATES OUT.npz
//   page_boxes cut PICTURE.npy BOXES.npy UPRIGHT OUT.npz     an array for each box, named by its number
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/io/file.h"
#include "runtime/io/npy.h"
#include "runtime/io/npz.h"
#include "runtime/pipeline/page/cut_pictures.h"
#include "runtime/pipeline/page/text_boxes.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

Result<HostTensor> array_in(const char* path) {
  MLC_ASSIGN(const auto file, io::read_file(path));
  return io::parse_npy(file.bytes());
}

Status write(const std::vector<NamedTensor>& arrays, const char* path) {
  std::vector<io::NpzItem> items;
  for (const NamedTensor& a : arrays) items.push_back({a.name, &a.tensor});
  std::FILE* const file = std::fopen(path, "wb");
  if (!file) return Status(Code::NotFound, "the result cannot be written");
  const Status written = io::write_npz(items, [&](Bytes bytes) {
    return std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() ? ok() : Status(Code::NotFound, "the result cannot be written");
  });
  std::fclose(file);
  return written;
}

Status boxes(char** a) {
  MLC_ASSIGN(const HostTensor map, array_in(a[0]));
  const TextBoxes step{std::atof(a[3]), std::atof(a[4]), std::atof(a[5]), std::atof(a[6]), std::atoll(a[7])};
  AnswerBudget budget;
  MLC_ASSIGN(FoundCorners found, text_boxes(step, map, {map.shape[0], map.shape[1]}, {std::atoll(a[1]), std::atoll(a[2])}, budget));
  std::vector<NamedTensor> arrays;
  arrays.push_back({"corners", std::move(found.corners)});
  arrays.push_back({"scores", std::move(found.scores)});
  return write(arrays, a[8]);
}

Status cut(char** a) {
  MLC_ASSIGN(const HostTensor picture, array_in(a[0]));
  MLC_ASSIGN(const HostTensor corners, array_in(a[1]));
  AnswerBudget budget;
  MLC_ASSIGN(auto parts, cut_pictures(picture, corners, std::atoi(a[2]) != 0, budget));
  std::vector<NamedTensor> arrays;
  for (HostTensor& part : parts) arrays.push_back({std::to_string(arrays.size()), std::move(part)});
  return write(arrays, a[3]);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (!(what == "boxes" && argc == 11) && !(what == "cut" && argc == 6)) return 2;
  const Status done = what == "cut" ? cut(argv + 2) : boxes(argv + 2);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.text().c_str());
  return static_cast<int>(done.code);
}
