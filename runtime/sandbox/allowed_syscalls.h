// What a confined process may ask of the kernel: the whole list, for every processor. spec/isolation.md has it in words.
//
// Everything that is not here fails with EPERM, not with the end of the process: libraries try things that they can do
// without (glibc opens /sys/devices/system/cpu/online before it makes an arena, and counts CPUs another way if it cannot).
// `kEndsTheProcess` are calls that none of them makes by itself. Code that makes one has taken the process over, and its
// answer must not be printed as if nothing had happened: the kernel ends the process, and the parent says so.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>

namespace mlc::sandbox {

// The argument `index` of a call: its bits under `mask` must be `value`. A mask of 0 ends the list of conditions.
struct Condition {
  uint32_t index = 0;
  uint64_t mask = 0;
  uint64_t value = 0;
};

struct AllowedCall {
  int number;
  std::array<Condition, 2> conditions{};  // all of them; several entries for one call: any of these
  bool for_code = false;                  // only where native code of a trusted file is going to run
};

inline constexpr uint64_t kWhole = UINT64_MAX;
inline constexpr uint64_t kThisProcess = UINT64_MAX - 1;  // stands for the process id, known when the filter is made
inline constexpr uint64_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                           CLONE_NEWPID | CLONE_NEWNET;
inline constexpr uint64_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;

// SCMP_SYS, but with the name as it stands here: some are macros of the C library (musl: prlimit64 is prlimit).
#define MLC_CALL(name) (__SNR_##name)

inline constexpr AllowedCall kAllowedCalls[] = {
    // Files that are open already. There is no call here that opens one.
    {MLC_CALL(read)},
    {MLC_CALL(pread64)},
    {MLC_CALL(readv)},
    {MLC_CALL(write)},
    {MLC_CALL(writev)},
    {MLC_CALL(lseek)},
    {MLC_CALL(close)},
    {MLC_CALL(fsync)},
    {MLC_CALL(fstat)},
    // How glibc asks for the state of an open file. The path in memory cannot be looked at here: what is behind one can be
    // asked for (size, owner, times), never its contents.
    {MLC_CALL(newfstatat), {{{3, kWhole, AT_EMPTY_PATH}}}},
    // How both C libraries do on LoongArch, where kernels before 6.11 have neither of the two.
    {MLC_CALL(statx), {{{2, ~uint64_t{AT_NO_AUTOMOUNT}, AT_EMPTY_PATH}}}},
    {MLC_CALL(fcntl), {{{1, kWhole, F_GETFL}}}},
    {MLC_CALL(fcntl), {{{1, kWhole, F_GETFD}}}},
    {MLC_CALL(ioctl), {{{1, kWhole, TCGETS}}}},  // is standard output a terminal?

    // Memory that no code can be put into.
    {MLC_CALL(mmap), {{{2, PROT_EXEC, 0}}}},
    {MLC_CALL(mprotect), {{{2, PROT_EXEC, 0}}}},
    {MLC_CALL(mremap)},
    {MLC_CALL(munmap)},
    {MLC_CALL(madvise)},
    {MLC_CALL(brk)},

    // Threads of this process. clone3 hides its flags from a filter; ENOSYS makes glibc use clone.
    {MLC_CALL(clone), {{{0, kThread | kNewNamespaces, kThread}}}},
    {MLC_CALL(set_robust_list)},
    {MLC_CALL(rseq)},
    {MLC_CALL(futex)},
    {MLC_CALL(sched_yield)},
    {MLC_CALL(sched_getaffinity)},
    {MLC_CALL(sched_setaffinity), {{{0, kWhole, 0}}}},  // of the calling thread
    {MLC_CALL(exit)},
    {MLC_CALL(exit_group)},
    {MLC_CALL(restart_syscall)},

    // Signals: to handle them, and to send them to this process (abort).
    {MLC_CALL(rt_sigaction)},
    {MLC_CALL(rt_sigprocmask)},
    {MLC_CALL(rt_sigreturn)},
    {MLC_CALL(sigaltstack)},
    {MLC_CALL(tgkill), {{{0, kWhole, kThisProcess}}}},
    // How musl sends one to the calling thread. It names no process: only the first thread can be told from those of others.
    {MLC_CALL(tkill), {{{0, kWhole, kThisProcess}}}},

    // Time and facts.
    {MLC_CALL(clock_gettime)},
    {MLC_CALL(clock_getres)},
    {MLC_CALL(clock_nanosleep)},
    {MLC_CALL(nanosleep)},
    {MLC_CALL(gettimeofday)},
    {MLC_CALL(getpid)},
    {MLC_CALL(gettid)},
    {MLC_CALL(getcpu)},
    {MLC_CALL(getrandom)},
    {MLC_CALL(getrusage)},
    {MLC_CALL(sysinfo)},
    {MLC_CALL(prlimit64), {{{0, kWhole, 0}, {2, kWhole, 0}}}},  // reads limits of this process

    // Pages of machine code, never writable and executable at once (runtime/memory/code_memory.h).
    {MLC_CALL(mmap), {{{2, PROT_WRITE, 0}}}, true},
    {MLC_CALL(mprotect), {{{2, PROT_WRITE, 0}}}, true},
    {MLC_CALL(memfd_create), {}, true},
    {MLC_CALL(ftruncate), {}, true},
    {MLC_CALL(fcntl), {{{1, kWhole, F_ADD_SEALS}}}, true},
    {MLC_CALL(riscv_flush_icache), {}, true},
    {MLC_CALL(arch_prctl), {{{0, kWhole, 0x1023}}}, true},  // ARCH_REQ_XCOMP_PERM: the tiles of AMX
};

inline constexpr int kEndsTheProcess[] = {
    MLC_CALL(execve), MLC_CALL(execveat),                                                // other programs
    MLC_CALL(ptrace), MLC_CALL(process_vm_readv), MLC_CALL(process_vm_writev),           // other processes
    MLC_CALL(socket), MLC_CALL(socketpair), MLC_CALL(connect), MLC_CALL(bind),           // the network
    MLC_CALL(io_uring_setup), MLC_CALL(bpf), MLC_CALL(userfaultfd),                      // ways around a filter, favourites of exploits
};

#undef MLC_CALL

}  // namespace mlc::sandbox
