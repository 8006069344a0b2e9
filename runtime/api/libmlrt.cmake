# libmlrt.so and libmlrt-gpu.so with their two symbols. Everything but the table is hidden. Their major version is that of the API,
# MLC_API_VERSION.
include(CheckLinkerFlag)
check_linker_flag(CXX "${MLC_LINKER};-Wl,--icf=all" MLC_LINKER_FOLDS)
get_target_property(libraries mlrt LINK_LIBRARIES)
get_target_property(gpu_libraries mlrt_gpu LINK_LIBRARIES)
function(add_runtime_library target name devices)
  list(TRANSFORM devices PREPEND ${PROJECT_SOURCE_DIR}/runtime/api/)
  add_library(${target} SHARED $<TARGET_OBJECTS:mlrt_parts> ${devices})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/api/libmlrt.map)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:${MLC_SMALL_CODE}>")
  target_link_libraries(${target} PRIVATE ${ARGN})
  if(MLC_LINKER_FOLDS)  # equal functions once: the instances of one template for several pointer types, above all
    target_link_options(${target} PRIVATE -Wl,--icf=all)
  endif()
  if(WIN32)  # mlrt.dll: what is exported says so in the header
    set_target_properties(${target} PROPERTIES PREFIX "" ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
    target_link_options(${target} PRIVATE -Wl,--gc-sections)
  else()
    target_link_options(${target} PRIVATE -Wl,-O2 -Wl,--gc-sections -Wl,--exclude-libs,ALL
      -Wl,--version-script=${PROJECT_SOURCE_DIR}/runtime/api/libmlrt.map)
  endif()
endfunction()
add_runtime_library(mlrt_shared mlrt devices/no_devices.cpp ${libraries})
add_runtime_library(mlrt_gpu_shared mlrt-gpu "devices/async_on_device.cpp;devices/device_choice.cpp;devices/devices.cpp;devices/dlpack.cpp;devices/memory.cpp;devices/places.cpp;devices/together.cpp;devices/together_mapping.cpp;devices/together_measured.cpp" ${gpu_libraries})

if(MLC_TESTS AND NOT MLC_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_test(NAME libmlrt_size COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/libmlrt_size.sh $<TARGET_FILE:mlrt_shared>
    ${CMAKE_STRIP} ${CMAKE_NM})
  add_test(NAME libmlrt_gpu_size COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/libmlrt_size.sh $<TARGET_FILE:mlrt_gpu_shared>
    ${CMAKE_STRIP} ${CMAKE_NM} $<TARGET_FILE:mlrt_shared>)
endif()
