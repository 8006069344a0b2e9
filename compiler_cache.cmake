# Compiled objects are kept by ccache where it is there, under names that do not hold this folder: a second clone of the project
# finds those of the first. Paths below this folder are relative to it in what is compared (CCACHE_BASEDIR), and what is compiled
# holds no path of this machine (-ffile-prefix-map), so the folder of the build need not count (CCACHE_NOHASHDIR).
find_program(MLC_CCACHE ccache)
if(MLC_CCACHE)
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${MLC_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()
