// Which sanitizers this is compiled with: g++ says so by a macro, clang by a feature.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MLC_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define MLC_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(MLC_ADDRESS_SANITIZER)
#define MLC_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(MLC_THREAD_SANITIZER)
#define MLC_THREAD_SANITIZER 1
#endif
#if defined(MLC_ADDRESS_SANITIZER) || defined(MLC_THREAD_SANITIZER)
#define MLC_SANITIZED 1
#endif
