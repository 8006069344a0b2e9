// Pages of the system that hold zeros.
#pragma once

#include <cstdint>

namespace mlc {

// `room` is a multiple of 4 KiB. Null: there are none. From the size of a huge page on they begin where one can, if the system has such for
// what asks for none.
[[nodiscard]] void* take_pages(uint64_t room);
// What take_pages gave, of the same size.
void give_pages_back(void* pages, uint64_t room);

}  // namespace mlc
