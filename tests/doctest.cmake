# mlc_doctest(target library...): makes the program `target` one of doctest, linked with these libraries.
# What all of them link is compiled once (doctest's main, the folder of the project), and so are the headers that most include.
# Clang's precompiled headers hold dates of files: ccache could not hand them from one clone to another.
add_library(mlc_test_main OBJECT support/doctest_main.cpp support/source_path.cpp)
set_target_properties(mlc_test_main PROPERTIES UNITY_BUILD OFF)
target_include_directories(mlc_test_main PUBLIC ${PROJECT_SOURCE_DIR})
set_source_files_properties(support/source_path.cpp PROPERTIES COMPILE_DEFINITIONS MLC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
set_source_files_properties(support/doctest_main.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_precompile_headers(mlc_test_main PRIVATE <doctest/doctest.h> <algorithm> <array> <atomic> <cmath> <cstdint> <cstdio>
    <cstdlib> <cstring> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set> <span>
    <sstream> <string> <string_view> <thread> <unordered_map> <vector>)
  # Compiled as programs are: precompiled headers are for equal options.
  set_target_properties(mlc_test_main PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(mlc_test_main PRIVATE -fPIE)
endif()

function(mlc_doctest target)
  target_link_libraries(${target} PRIVATE mlc_test_main ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_precompile_headers(${target} REUSE_FROM mlc_test_main)
  endif()
endfunction()
