# find_package(mlrt) gives the target mlrt::mlrt: <mlrt/mlc.h> for C, <mlrt/mlc.hpp> for C++20.
include(${CMAKE_CURRENT_LIST_DIR}/mlrtTargets.cmake)
