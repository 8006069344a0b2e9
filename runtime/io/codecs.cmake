# Decoders that others wrote go into what is built, where the system has their archives: distributions name the shared libraries
# differently (libjpeg.so.62 and .so.8), and a program should run on another one than it was built on. Where there is no archive
# the shared library is linked, and the configuration says so. libtiff, which calls nine others, is loaded when it is needed (tiff_library.h).
#
# Debian compiles archives for programs: what they say of a libc's variable cannot be linked into a shared library such as libmlio. The copies that
# are linked name variables of ours instead (codec_streams.cpp).
function(find_codec out name)
  find_library(MLC_${name}_ARCHIVE NAMES lib${name}.a)
  if(NOT MLC_${name}_ARCHIVE)
    find_library(MLC_${name}_SHARED NAMES ${name})
    if(MLC_${name}_SHARED)
      message(STATUS "mlc_io: lib${name}.a is missing, programs will need the shared library")
    endif()
    set(${out} ${MLC_${name}_SHARED} PARENT_SCOPE)
    return()
  endif()
  set(copy ${CMAKE_CURRENT_BINARY_DIR}/lib${name}.a)
  if(NOT EXISTS ${copy} OR ${MLC_${name}_ARCHIVE} IS_NEWER_THAN ${copy})
    execute_process(COMMAND ${CMAKE_OBJCOPY} --redefine-sym stderr=mlc_codec_stderr --redefine-sym stdout=mlc_codec_stdout ${MLC_${name}_ARCHIVE} ${copy}
      RESULT_VARIABLE failed ERROR_QUIET)
    if(failed)  # of another processor: good enough for programs
      message(STATUS "mlc_io: ${CMAKE_OBJCOPY} does not copy ${MLC_${name}_ARCHIVE}, it is linked as it is")
      file(REMOVE ${copy})
      set(${out} ${MLC_${name}_ARCHIVE} PARENT_SCOPE)
      return()
    endif()
  endif()
  set(${out} ${copy} PARENT_SCOPE)
endfunction()
