# What compiler and linker add against the mistakes that tests have not found. Not for sanitized builds, which see more.
include(CheckCXXCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

# Checks of the C library's copies; they need optimisation.
add_compile_definitions($<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)

set(MLC_HARDENING)  # the options that are added, for what need not have them
function(mlc_harden variable flag)
  check_cxx_compiler_flag(${flag} ${variable})
  if(${variable})
    add_compile_options(${flag})
    list(APPEND MLC_HARDENING ${flag})
    set(MLC_HARDENING ${MLC_HARDENING} PARENT_SCOPE)
  endif()
endfunction()
mlc_harden(MLC_HAS_STACK_PROTECTOR -fstack-protector-strong)
if(NOT WIN32)  # where each frame is probed anyway, and GCC 12 fails at both together; its marks of jump targets are not those of Windows
  mlc_harden(MLC_HAS_STACK_CLASH -fstack-clash-protection)
  # Indirect jumps and returns that the processor checks: x86-64, AArch64.
  mlc_harden(MLC_HAS_CET -fcf-protection=full)
  mlc_harden(MLC_HAS_BRANCH_PROTECTION -mbranch-protection=standard)
endif()

if(WIN32)
  add_link_options(-Wl,--dynamicbase,--high-entropy-va,--nxcompat)
  if(MLC_HAS_STACK_PROTECTOR)
    add_link_options(-fstack-protector-strong)  # whose functions are not in the C library
  endif()
else()
  # All symbols are bound at the start, and the tables that hold them are read-only from then on.
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()
