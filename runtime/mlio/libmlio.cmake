# libmlio.so with its one symbol. All of it is compiled with exceptions, of which there is one: that of an allocation that
# failed finds its way to the table, which makes MLC_RESOURCE of it, and leaves nothing behind.
set(parts mlc_base mlc_pipeline_schema mlc_tokenizer_schema mlc_tokenizer mlc_io mlc_pipeline mlc_services mlc_mlio)
set(sources ${PROJECT_SOURCE_DIR}/runtime/mlio/mlio.cpp ${PROJECT_SOURCE_DIR}/runtime/mlio/mlio_stream.cpp)
add_library(mlio_shared SHARED)
foreach(part ${parts})
  get_target_property(folder ${part} SOURCE_DIR)
  get_target_property(own ${part} SOURCES)
  foreach(source ${own})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    list(APPEND sources ${source})
  endforeach()
  target_compile_definitions(mlio_shared PRIVATE $<TARGET_PROPERTY:${part},COMPILE_DEFINITIONS>)
  target_include_directories(mlio_shared PRIVATE $<TARGET_PROPERTY:${part},INCLUDE_DIRECTORIES>)
endforeach()
target_include_directories(mlio_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_sources(mlio_shared PRIVATE ${sources})
# For what they link in turn: all that the archives have is there already.
target_link_libraries(mlio_shared PRIVATE ${parts})
set_target_properties(mlio_shared PROPERTIES OUTPUT_NAME mlio EXPORT_NAME mlio VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib LINK_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/mlio/libmlio.map)
# Not for size: decoders, tokenizers and steps on the host are loops.
target_compile_options(mlio_shared PRIVATE -fvisibility=hidden -ffunction-sections -fdata-sections)
target_link_options(mlio_shared PRIVATE -Wl,--gc-sections)
if(WIN32)
  set_target_properties(mlio_shared PROPERTIES PREFIX "" ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  target_compile_definitions(mlio_shared PRIVATE MLC_BUILDS_LIBRARY=1)
else()
  target_link_options(mlio_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/runtime/mlio/libmlio.map)
endif()
