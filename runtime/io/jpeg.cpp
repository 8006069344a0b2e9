// libjpeg-turbo reports errors by calling a function that must not return; ours jumps back with longjmp. Three rules
// keep that sound in C++: everything that has to be released lives in JpegState, which the caller of the phases owns;
// no object with a destructor is alive inside a phase; and nothing is allocated between setjmp and its last use.
#include <csetjmp>
#include <cstdio>
// jpeglib.h needs FILE and size_t before it.
#include <jpeglib.h>

#include <jerror.h>

#include "runtime/io/exif.h"
#include "runtime/io/image.h"
#include "runtime/io/raster.h"

namespace mlc::io {
namespace {

constexpr long kMaxWorkingMemory = 3L << 30;  // bytes that libjpeg may hold: progressive files keep all coefficients

struct JpegState {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];

  JpegState() : info(), errors(), progress(), message() {}
  ~JpegState() { jpeg_destroy_decompress(&info); }
  JpegState(const JpegState&) = delete;
  JpegState& operator=(const JpegState&) = delete;
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* state = static_cast<JpegState*>(info->client_data);
  info->err->format_message(info, state->message);
  std::longjmp(state->jump, 1);
}

// A negative level is a warning: "the data is odd, decoding goes on". Where that means that pixels are made up, it
// stops.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  ++info->err->num_warnings;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_ARITH_BAD_CODE: on_error(info);
    default: return;
  }
}

void on_output(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  auto* state = static_cast<JpegState*>(info->client_data);
  if (state->info.input_scan_number <= kMaxScans) return;
  std::snprintf(state->message, sizeof state->message, "more than %d scans", kMaxScans);
  std::longjmp(state->jump, 1);
}

bool read_header(JpegState& s, Bytes file) {
  s.info.err = jpeg_std_error(&s.errors);
  s.errors.error_exit = on_error;
  s.errors.emit_message = on_message;
  s.errors.output_message = on_output;
  s.info.client_data = &s;
  if (setjmp(s.jump)) return false;
  jpeg_create_decompress(&s.info);  // clears the struct, except err and client_data
  s.progress.progress_monitor = on_progress;
  s.info.progress = &s.progress;
  s.info.mem->max_memory_to_use = kMaxWorkingMemory;
  jpeg_save_markers(&s.info, JPEG_APP0 + 1, 0xFFFF);
  jpeg_mem_src(&s.info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&s.info, TRUE);
  return true;
}

bool read_pixels(JpegState& s, std::byte* pixels, size_t stride) {
  if (setjmp(s.jump)) return false;
  s.info.out_color_space = s.info.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  s.info.dct_method = JDCT_ISLOW;
  s.info.do_fancy_upsampling = TRUE;
  s.info.do_block_smoothing = TRUE;
  s.info.scale_num = s.info.scale_denom = 1;
  jpeg_start_decompress(&s.info);
  while (s.info.output_scanline < s.info.output_height) {
    JSAMPROW row = reinterpret_cast<JSAMPROW>(pixels + stride * s.info.output_scanline);
    jpeg_read_scanlines(&s.info, &row, 1);
  }
  jpeg_finish_decompress(&s.info);
  return true;
}

Status damaged(const JpegState& s) { return Status(Code::Malformed, std::string("jpeg: ") + s.message); }

int stored_orientation(const jpeg_decompress_struct& info) {
  for (auto* m = info.marker_list; m; m = m->next) {
    if (m->marker != JPEG_APP0 + 1) continue;
    Bytes data(reinterpret_cast<const std::byte*>(m->data), m->data_length);
    if (data.size() > 6 && data[0] == std::byte{'E'} && data[1] == std::byte{'x'}) return exif_orientation(data);
  }
  return 1;
}

}  // namespace

Result<Raster> decode_jpeg(Bytes file, bool header_only) {
  JpegState s;
  if (!read_header(s, file)) return damaged(s);
  const auto& info = s.info;
  MLC_RETURN_IF_ERROR(check_dims(info.image_width, info.image_height).note("jpeg"));
  bool grey = info.num_components == 1 && info.jpeg_color_space == JCS_GRAYSCALE;
  bool colour = info.num_components == 3 && (info.jpeg_color_space == JCS_YCbCr || info.jpeg_color_space == JCS_RGB);
  if (!grey && !colour)
    return Status(Code::Unsupported, std::string("jpeg: ") + (info.num_components == 4 ? "CMYK" : "unknown") +
                                         " colours, expected grey, YCbCr or RGB");
  Raster r;
  r.height = info.image_height;
  r.width = info.image_width;
  r.channels = grey ? 1 : 3;
  r.orientation = stored_orientation(info);
  if (header_only) return r;
  size_t stride = static_cast<size_t>(r.width) * r.channels;
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(stride * r.height));
  if (!read_pixels(s, r.pixels.data(), stride)) return damaged(s);
  return r;
}

}  // namespace mlc::io
