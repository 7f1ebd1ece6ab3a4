#include "base/crc32c.h"

#include <array>
#include <cstring>

#include "base/assert.h"

namespace ocm {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}
constexpr auto kTable = make_table();
static_assert(kTable[0] == 0 && kTable[0x80] == 0x82F63B78u, "one bit gives the polynomial");

uint32_t crc_table(uint32_t crc, const unsigned char* p, size_t bytes) {
  for (; bytes > 0; --bytes, ++p) crc = (crc >> 8) ^ kTable[(crc ^ *p) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc_instruction(uint32_t crc, const unsigned char* p,
                                                           size_t bytes) {
  uint64_t wide = crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; bytes > 0; --bytes, ++p) narrow = __builtin_ia32_crc32qi(narrow, *p);
  return narrow;
}
#endif

}  // namespace

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) {
  OCM_DASSERT(data != nullptr || bytes == 0);
  const auto* p = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasInstruction) return ~crc_instruction(~crc, p, bytes);
#endif
  return ~crc_table(~crc, p, bytes);
}

}  // namespace ocm
