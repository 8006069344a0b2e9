# Writes a source with one digest of all LIBRARIES (archives, by commas).
string(REPLACE "," ";" libraries "${LIBRARIES}")
set(digests)
foreach(library ${libraries})
  file(SHA256 ${library} digest)
  string(APPEND digests ${digest})
endforeach()
string(SHA256 digest "${digests}")
file(WRITE ${OUTPUT} "namespace mlc::compile {
extern const char kCodeGenerator[];
const char kCodeGenerator[] = \"code generator ${digest}\";
}  // namespace mlc::compile
")
