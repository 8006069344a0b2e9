// What codecs print goes through these (codecs.cmake); none of them prints here, since each has handlers of ours.
#include <cstdio>

extern "C" {
extern std::FILE* mlc_codec_stderr;
extern std::FILE* mlc_codec_stdout;
std::FILE* mlc_codec_stderr = stderr;
std::FILE* mlc_codec_stdout = stdout;
}
