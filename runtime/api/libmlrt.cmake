# libmlrt.so with its two symbols. Everything but the table is hidden.
#
# In release builds it is compiled from the sources of its libraries all over again, so that the compiler sees the whole
# of it (-flto): that makes it 6 % smaller, and it has 400 KB. The libraries themselves stay ordinary ones, because every
# test and tool links them and would pay for the same at each link.
set(libraries mlc_base mlc_schema mlc_signing mlc_container_reader mlc_probe mlc_match mlc_threads mlc_memory mlc_plan
  mlc_loader_elf mlc_loader_portable)

add_library(mlrt_shared SHARED)
set_target_properties(mlrt_shared PROPERTIES OUTPUT_NAME mlrt LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/api/libmlrt.map)
set(whole OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT MLC_SANITIZE)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT whole OUTPUT ignored LANGUAGES CXX)
endif()
set(parts mlrt)
if(whole)
  list(APPEND parts ${libraries})
  set_target_properties(mlrt_shared PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
  target_compile_options(mlrt_shared PRIVATE -fno-exceptions -Wno-restrict ${MLC_SMALL_CODE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # in one piece: calls are not kept apart where two parts of it meet
    target_link_options(mlrt_shared PRIVATE -flto-partition=one)
  endif()
  target_include_directories(mlrt_shared PRIVATE ${PROJECT_SOURCE_DIR} ${MLC_ZSTD_INCLUDE})
  find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
  find_package(Threads REQUIRED)
  target_link_libraries(mlrt_shared PRIVATE OpenSSL::Crypto ${MLC_ZSTD} Threads::Threads)
else()
  target_compile_options(mlrt_shared PRIVATE -fno-exceptions -Wno-restrict)
  target_link_libraries(mlrt_shared PRIVATE ${libraries})
endif()
foreach(part ${parts})
  get_target_property(sources ${part} SOURCES)
  get_target_property(folder ${part} SOURCE_DIR)
  foreach(source ${sources})
    get_source_file_property(options ${source} TARGET_DIRECTORY ${part} COMPILE_OPTIONS)
    target_sources(mlrt_shared PRIVATE ${folder}/${source})
    if(NOT options)  # hot loops have their own
      set(options)
    endif()
    if(part STREQUAL mlc_probe)  # as its own file says
      list(APPEND options -fno-lto)
    endif()
    if(options)
      set_source_files_properties(${folder}/${source} PROPERTIES COMPILE_OPTIONS "${options}")
    endif()
  endforeach()
endforeach()
target_compile_options(mlrt_shared PRIVATE -fno-rtti)  # nothing asks for the type of an object
target_compile_definitions(mlrt_shared PRIVATE MLC_VERSION_TEXT="${PROJECT_VERSION}")
# A library does not abort, and the tools and tests, which are built from the same sources, have these checks.
target_compile_options(mlrt_shared PRIVATE -U_GLIBCXX_ASSERTIONS)
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
