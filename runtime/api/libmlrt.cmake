# libmlrt.so with its two symbols. Everything but the table is hidden. Its major version is that of the API, MLC_API_VERSION.
get_target_property(sources mlrt SOURCES)
list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/runtime/api/)
get_target_property(libraries mlrt LINK_LIBRARIES)
add_library(mlrt_shared SHARED ${sources})
set_target_properties(mlrt_shared PROPERTIES OUTPUT_NAME mlrt EXPORT_NAME mlrt
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/api/libmlrt.map)
target_compile_options(mlrt_shared PRIVATE -Wno-restrict "$<$<CONFIG:Release>:${MLC_SMALL_CODE}>")
target_compile_definitions(mlrt_shared PRIVATE MLC_VERSION_TEXT="${PROJECT_VERSION}")
target_link_libraries(mlrt_shared PRIVATE ${libraries})
include(CheckLinkerFlag)
check_linker_flag(CXX "-fuse-ld=gold;-Wl,--icf=all" MLC_LINKER_FOLDS)
if(MLC_LINKER_FOLDS)  # equal functions once: the instances of one template for several pointer types, above all
  target_link_options(mlrt_shared PRIVATE -fuse-ld=gold -Wl,--icf=all)
endif()
target_link_options(mlrt_shared PRIVATE -Wl,-O2 -Wl,--gc-sections -Wl,--exclude-libs,ALL
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/runtime/api/libmlrt.map)

if(MLC_TESTS AND NOT MLC_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_test(NAME libmlrt_size COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/libmlrt_size.sh $<TARGET_FILE:mlrt_shared>
    ${CMAKE_STRIP} ${CMAKE_NM})
endif()
