#include "runtime/io/picture/image.h"

#include "runtime/io/media.h"
#include "runtime/io/picture/exif.h"
#include "tests/unit/io/fixtures.h"

using namespace mlc;
using namespace mlc::io;
using namespace mlc::test;

namespace {

// "rgb.png:orient=ignore,color=gray,alpha=drop,gray=opencv"
struct Case {
  std::string file;
  ImageOptions options;
};

bool parse_case(const std::string& key, Case& c) {
  size_t colon = key.find(':');
  if (colon == std::string::npos || key.find("color=") == std::string::npos) return false;
  auto has = [&](const char* text) { return key.find(text, colon) != std::string::npos; };
  c.file = key.substr(0, colon);
  c.options.color = has("color=rgb") ? Color::Rgb : has("color=bgr") ? Color::Bgr : Color::Gray;
  c.options.gray = has("gray=opencv") ? GrayFormula::OpenCv : GrayFormula::Pillow;
  c.options.alpha = has("alpha=keep") ? Alpha::Keep : has("alpha=over") ? Alpha::Over : Alpha::Drop;
  c.options.background = {10, 200, 77};
  c.options.orient = has("orient=exif") ? Orient::Exif : Orient::Ignore;
  return true;
}

std::vector<std::byte> concat(Bytes a, std::string_view b) {
  std::vector<std::byte> all(a.begin(), a.end());
  for (char c : b) all.push_back(static_cast<std::byte>(c));
  return all;
}

// The checksum of PNG chunks, bit by bit (RFC 1952, section 8).
uint32_t png_crc(Bytes bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (std::byte b : bytes) {
    crc ^= std::to_integer<uint32_t>(b);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("every decoded image has the bytes that Pillow and OpenCV give") {
  int cases = 0;
  for (const NamedTensor& e : expectations()) {
    Case c;
    if (!parse_case(e.name, c)) continue;
    CAPTURE(e.name);
    auto image = decode_image(fixture(c.file).bytes(), c.options);
    REQUIRE_MESSAGE(image.ok(), image.status().text());
    CHECK(image->shape == e.tensor.shape);
    CHECK(same(*image, e.tensor));
    ++cases;
  }
  CHECK(cases > 230);
}

TEST_CASE("the header alone tells size, channels and orientation") {
  auto info = image_info(fixture("exif6.jpg").bytes());
  REQUIRE(info.ok());
  CHECK(info->height == 5);
  CHECK(info->width == 8);
  CHECK(info->channels == 3);
  CHECK(info->orientation == 6);
  CHECK(image_info(fixture("palette_alpha.png").bytes())->channels == 4);
}

TEST_CASE("CMYK, other kinds of file and empty files are refused with a sentence") {
  auto cmyk = decode_image(fixture("cmyk.jpg").bytes(), {});
  REQUIRE(!cmyk.ok());
  CHECK(cmyk.status().code == Code::Unsupported);
  CHECK(cmyk.status().message.find("CMYK") != std::string::npos);
  auto wav = decode_image(fixture("pcm16.wav").bytes(), {});
  REQUIRE(!wav.ok());
  CHECK(wav.status().message == "not a picture but audio/wav");
  auto empty = decode_image({}, {});
  REQUIRE(!empty.ok());
  CHECK(empty.status().message == "not a picture but an empty file");
}

TEST_CASE("an image that ends early is an error, not a grey picture") {
  for (const char* name : {"q75_420.jpg", "q50_422_progressive.jpg", "rgb.png", "interlaced.png"}) {
    HostBuffer file = fixture(name);
    CAPTURE(name);
    for (size_t n : {file.size() - 1, file.size() - 2, file.size() * 3 / 4, file.size() / 2, size_t{20}}) {
      CAPTURE(n);
      auto image = decode_image(file.bytes().first(n), {});
      CHECK(!image.ok());
    }
  }
}

TEST_CASE("a header that claims too many pixels is refused before memory is taken") {
  auto png = concat(fixture("rgb.png").bytes(), "");
  for (size_t at : {17, 18, 21, 22}) png[at] = std::byte{0x7F};  // 8355607 x 8355601
  uint32_t crc = png_crc(Bytes(png).subspan(12, 17));
  for (int i = 0; i < 4; ++i) png[29 + i] = static_cast<std::byte>(crc >> (24 - 8 * i) & 0xFF);
  auto large = decode_image(png, {});
  REQUIRE(!large.ok());
  CHECK(large.status().message == "png: 8355607 x 8355601 pixels, at most 268435456");
  HostBuffer jpeg = fixture("q95_444.jpg");
  auto wide = concat(jpeg.bytes(), "");
  for (size_t i = 0; i + 9 < wide.size(); ++i)
    if (wide[i] == std::byte{0xFF} && wide[i + 1] == std::byte{0xC0})
      for (size_t at = i + 5; at < i + 9; ++at) wide[at] = std::byte{0xF0};
  auto bomb = decode_image(wide, {});
  REQUIRE(!bomb.ok());
  CHECK(bomb.status().message == "jpeg: 61680 x 61680 pixels, at most 268435456");
}

TEST_CASE("the rarer kinds of pictures are told by their first bytes") {
  const std::pair<const char*, Media> kinds[] = {
      {"core.bmp", Media::Bmp},  {"rgba_v5.bmp", Media::Bmp}, {"text.pbm", Media::Pnm},     {"deep.ppm", Media::Pnm},
      {"lzw.tiff", Media::Tiff}, {"lossy.webp", Media::WebP}, {"rgb.jp2", Media::Jpeg2000}, {"tiles.j2k", Media::Jpeg2000}};
  for (const auto& [name, media] : kinds) CHECK_MESSAGE(media_of(fixture(name).bytes()) == media, name);
  const auto kind_of = [](std::string_view text) {
    return media_of({reinterpret_cast<const std::byte*>(text.data()), text.size()});
  };
  CHECK(kind_of("BMW is a make of cars") == Media::Unknown);
  CHECK(kind_of("P7\nWIDTH 1") == Media::Unknown);
  CHECK(kind_of("P100") == Media::Unknown);
}

TEST_CASE("the rarer kinds: what ends early, what moves and what lies about its size") {
  for (const char* name : {"rgb.bmp", "palette4.bmp", "text.pbm", "bytes.pbm", "text.pgm", "deep.ppm", "raw.tiff",
                           "lzw.tiff", "fax4.tiff", "lossless.webp", "lossy.webp", "rgb.jp2", "tiles.j2k"}) {
    HostBuffer file = fixture(name);
    CAPTURE(name);
    for (size_t n : {file.size() * 3 / 4, file.size() / 2, size_t{20}}) {
      CAPTURE(n);
      CHECK(!decode_image(file.bytes().first(n), {}).ok());
    }
  }
  CHECK(decode_image(fixture("moving.webp").bytes(), {}).status().message ==
        "webp: an animation, one picture is expected");

  const auto with = [](const char* name, std::initializer_list<std::pair<size_t, uint8_t>> changes) {
    HostBuffer file = fixture(name);
    for (const auto& [at, value] : changes) file.data()[at] = std::byte{value};
    return decode_image(file.bytes(), {}).status().message;
  };
  CHECK(with("rgb.bmp", {{20, 0x7F}, {24, 0x7F}}) == "bmp: 8323091 x 8323085 pixels, at most 268435456");
  CHECK(with("rgb.bmp", {{21, 0x80}}) == "bmp: no width");
  CHECK(with("rgb.bmp", {{30, 1}}) == "bmp: compression 1 of 24 bits");
  CHECK(with("rgb.bmp", {{14, 41}}) == "bmp: unknown header");
  CHECK(with("rgb.bmp", {{10, 255}}) == "bmp: the pixels are truncated");
  CHECK(with("rgb565.bmp", {{54, 0x01}}) == "bmp: colour masks");
  CHECK(with("palette4.bmp", {{46, 1}}) == "bmp: a colour that the palette does not have");
  CHECK(with("bytes.ppm", {{3, '9'}, {4, '9'}, {5, '9'}, {6, '9'}, {7, '9'}, {8, ' '}}).find("pnm: ") == 0);
  // SIZ: a tile of one pixel each, then more components than any picture has.
  HostBuffer tiled = fixture("tiles.j2k");
  CHECK(with("tiles.j2k", {{10, 1}, {14, 1}, {27, 1}, {31, 1}}).find("tiles") != std::string::npos);
  CHECK(with("tiles.j2k", {{40, 0x40}}) == "jpeg2000: 16387 components");
  CHECK(with("tiles.j2k", {{8, 0x7F}, {12, 0x7F}}).find("at most 268435456") != std::string::npos);
}

TEST_CASE("damage to the rarer kinds never breaks the decoder") {
  for (const char* name : {"palette4.bmp", "rgba_v5.bmp", "text.pgm", "deep.ppm", "lzw.tiff", "jpeg.tiff", "rgba.tiff",
                           "alpha.webp", "lossy.webp", "rgb.jp2", "tiles.j2k"}) {
    HostBuffer file = fixture(name);
    walk_damage(file, 200, [&](Bytes bytes) {
      const auto info = image_info(bytes);
      if (!info.ok() || info->height * info->width > 1 << 16) return;
      ImageOptions options;
      options.alpha = Alpha::Keep;
      const auto image = decode_image(bytes, options);
      if (!image.ok()) return;
      CHECK(image->elements() == info->height * info->width * 4);
    });
  }
}

TEST_CASE("broken EXIF data counts as upright") {
  auto of = [](std::string_view text) {
    return exif_orientation({reinterpret_cast<const std::byte*>(text.data()), text.size()});
  };
  using namespace std::string_view_literals;
  CHECK(of("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"sv) == 6);
  CHECK(of("Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\x08\0\0"sv) == 8);
  CHECK(of("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\x09\0\0\0"sv) == 1);        // no such orientation
  CHECK(of("II*\0\x08\0\0\0\1\0\x12\1\4\0\1\0\0\0\6\0\0\0"sv) == 1);          // not a short
  CHECK(of("II*\0\xff\xff\xff\xff"sv) == 1);                                    // directory outside
  CHECK(of("II*\0\x08\0\0\0\xff\xff\1\1\3\0"sv) == 1);                          // entries outside
  CHECK(of(""sv) == 1);
}

TEST_CASE("damaged images never crash, and what still decodes has the stated size") {
  for (const char* name :
       {"exif6.jpg", "q50_422_progressive.jpg", "grey.jpg", "palette_alpha.png", "exif8.png", "interlaced.png"}) {
    CAPTURE(name);
    walk_damage(fixture(name), 400, [](Bytes bytes) {
      ImageOptions options;
      options.alpha = Alpha::Keep;
      auto info = image_info(bytes);
      // A flipped size byte may claim a large picture: valid, but slow to decode hundreds of times.
      if (info.ok() && info->height * info->width > 1 << 20) return;
      auto image = decode_image(bytes, options);
      if (!image.ok()) {
        CHECK(!image.status().message.empty());
        return;
      }
      REQUIRE(info.ok());
      CHECK(image->elements() == info->height * info->width * 4);
    });
  }
}
