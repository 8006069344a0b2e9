// libjpeg-turbo reports errors by calling a function that must not return; ours jumps back with longjmp. Three rules
// keep that sound in C++: everything that has to be released lives in JpegState, which the caller of the phases owns;
// no object with a destructor is alive inside a phase; and nothing is allocated between setjmp and its last use.
#include <algorithm>
#include <climits>
#include <csetjmp>
#include <cstdio>
// jpeglib.h needs FILE and size_t before it.
#include <jpeglib.h>

#include <jerror.h>

#include "runtime/io/picture/exif.h"
#include "runtime/io/picture/image.h"
#include "runtime/io/picture/raster.h"

namespace mlc::io {
namespace {

// What libjpeg holds whatever the picture is: its state, tables for Huffman codes and colours, the slop of its pools.
constexpr uint64_t kJpegMemory = 256 << 10;

struct JpegState {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  Code code = Code::Malformed;  // of a failure
  Bytes exif;                   // the first APP1 segment that is EXIF, within the file
  int scans = 0;
  uint64_t visits = 0;  // of blocks, by these scans

  JpegState() : info(), errors(), progress(), message() {}
  ~JpegState() { jpeg_destroy_decompress(&info); }
  JpegState(const JpegState&) = delete;
  JpegState& operator=(const JpegState&) = delete;
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* state = static_cast<JpegState*>(info->client_data);
  info->err->format_message(info, state->message);
  if (info->err->msg_code == JERR_OUT_OF_MEMORY || info->err->msg_code == JERR_NO_BACKING_STORE)
    state->code = Code::Resource;
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

// Called before each row of blocks. An empty scan costs a visit of every block and no bytes of the file.
void on_progress(j_common_ptr info) {
  auto* state = static_cast<JpegState*>(info->client_data);
  const jpeg_decompress_struct& in = state->info;
  if (in.input_scan_number == state->scans) return;
  state->scans = in.input_scan_number;
  state->visits += uint64_t{in.MCUs_per_row} * in.MCU_rows_in_scan * static_cast<uint64_t>(in.blocks_in_MCU);
  if (state->scans <= kMaxScans && state->visits <= kMaxBlockVisits) return;
  std::snprintf(state->message, sizeof state->message, "%d scans of %u x %u pixels, at most %d scans and %llu blocks",
                state->scans, in.image_width, in.image_height, kMaxScans,
                static_cast<unsigned long long>(kMaxBlockVisits));
  state->code = Code::Resource;
  std::longjmp(state->jump, 1);
}

// Finds the EXIF data where it lies. jpeg_save_markers would copy every APP1 segment, and a file can have millions.
boolean on_app1(j_decompress_ptr info) {
  auto* state = static_cast<JpegState*>(info->client_data);
  jpeg_source_mgr& in = *info->src;  // jpeg_mem_src: all of the file
  if (in.bytes_in_buffer < 2) ERREXIT(info, JERR_INPUT_EOF);
  const size_t stated = size_t{in.next_input_byte[0]} << 8 | in.next_input_byte[1];
  const size_t length = stated < 2 ? 2 : stated;  // it counts its own two bytes
  if (length > in.bytes_in_buffer) ERREXIT(info, JERR_INPUT_EOF);
  const Bytes data(reinterpret_cast<const std::byte*>(in.next_input_byte) + 2, length - 2);
  if (state->exif.empty() && data.size() > 6 && data[0] == std::byte{'E'} && data[1] == std::byte{'x'})
    state->exif = data;
  in.next_input_byte += length;
  in.bytes_in_buffer -= length;
  return TRUE;
}

bool read_header(JpegState& s, Bytes file, const DecodeLimits& limits) {
  s.info.err = jpeg_std_error(&s.errors);
  s.errors.error_exit = on_error;
  s.errors.emit_message = on_message;
  s.errors.output_message = on_output;
  s.info.client_data = &s;
  if (setjmp(s.jump)) return false;
  jpeg_create_decompress(&s.info);  // clears the struct, except err and client_data
  s.progress.progress_monitor = on_progress;
  s.info.progress = &s.progress;
  // A last resort behind working_memory(): libjpeg would go on in temporary files, libjpeg-turbo fails instead.
  s.info.mem->max_memory_to_use = static_cast<long>(std::min<uint64_t>(limits.memory, LONG_MAX));
  jpeg_set_marker_processor(&s.info, JPEG_APP0 + 1, on_app1);
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

Status damaged(const JpegState& s) { return Status(s.code, std::string("jpeg: ") + s.message); }

// What libjpeg asks for while it decodes (libjpeg-turbo 2.1: jdcoefct.c, jdmainct.c, jdsample.c). Files of one scan pass
// through a few rows of every component; of several scans all coefficients are kept, 64 of 2 bytes for each block.
MemoryNeed working_memory(jpeg_decompress_struct& info) {
  MemoryNeed need;
  need.add(kJpegMemory);
  const auto up = [](uint64_t n, int multiple) { return (n + multiple - 1) / multiple * multiple; };
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& k = info.comp_info[c];
    const uint64_t across = up(k.width_in_blocks, k.h_samp_factor), down = up(k.height_in_blocks, k.v_samp_factor);
    if (jpeg_has_multiple_scans(&info)) need.add(down, across * 64 * sizeof(JCOEF) + sizeof(JBLOCKROW));
    const uint64_t row = across * DCTSIZE + 128;
    need.add(10 * static_cast<uint64_t>(k.v_samp_factor), row);            // one row of blocks and what adjoins it
    need.add(static_cast<uint64_t>(info.max_v_samp_factor), up(info.image_width, info.max_h_samp_factor) + 128);
  }
  return need;
}

}  // namespace

Result<Raster> decode_jpeg(Bytes file, const DecodeLimits& limits, bool header_only) {
  JpegState s;
  if (!read_header(s, file, limits)) return damaged(s);
  auto& info = s.info;
  MLC_RETURN_IF_ERROR(check_dims(info.image_width, info.image_height, limits).note("jpeg"));
  bool grey = info.num_components == 1 && info.jpeg_color_space == JCS_GRAYSCALE;
  bool colour = info.num_components == 3 && (info.jpeg_color_space == JCS_YCbCr || info.jpeg_color_space == JCS_RGB);
  if (!grey && !colour)
    return Status(Code::Unsupported, std::string("jpeg: ") + (info.num_components == 4 ? "CMYK" : "unknown") +
                                         " colours, expected grey, YCbCr or RGB");
  Raster r;
  r.height = info.image_height;
  r.width = info.image_width;
  r.channels = grey ? 1 : 3;
  r.orientation = s.exif.empty() ? 1 : exif_orientation(s.exif);
  if (header_only) return r;
  size_t stride = static_cast<size_t>(r.width) * r.channels;
  const char* const kind = jpeg_has_multiple_scans(&info) ? "jpeg in several scans" : "jpeg";
  MLC_RETURN_IF_ERROR(working_memory(info).add(r.num_bytes()).check(limits, r.describe(kind)));
  MLC_ASSIGN(r.pixels, HostBuffer::unwritten(r.num_bytes()));
  if (!read_pixels(s, r.pixels.data(), stride)) return damaged(s);
  return r;
}

}  // namespace mlc::io
