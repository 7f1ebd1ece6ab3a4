#include "fabric/ucx/message.h"

#include <cstring>

#include "base/crc32c.h"

namespace ocm::fabric::ucx {
namespace {

/// Writes or reads the same fields in the same order, so that encode and decode cannot differ.
class Writer {
 public:
  static constexpr bool kReads = false;
  template <class T>
  void number(const T& value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      out_.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
  template <size_t N>
  void array(const std::array<std::byte, N>& value) {
    out_.append(reinterpret_cast<const char*>(value.data()), N);
  }
  void text(const std::string& value) {
    number(static_cast<uint16_t>(value.size()));
    out_ += value;
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <class T>
  void number(T& value) {
    std::array<std::byte, sizeof(T)> raw{};
    array(raw);
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof(T); ++i) sum |= static_cast<uint64_t>(raw[i]) << (8 * i);
    value = static_cast<T>(sum);
  }
  template <size_t N>
  void array(std::array<std::byte, N>& value) {
    if (in_.size() < N) {
      good_ = false;
      return;
    }
    std::memcpy(value.data(), in_.data(), N);
    in_ = in_.subspan(N);
  }
  void text(std::string& value) {
    uint16_t size = 0;
    number(size);
    if (size > kRkeyBytesMax || size > in_.size()) {
      good_ = false;
      return;
    }
    value.assign(reinterpret_cast<const char*>(in_.data()), size);
    in_ = in_.subspan(size);
  }
  bool finished() const { return good_ && in_.empty(); }
  bool good() const { return good_; }

 private:
  std::span<const std::byte> in_;
  bool good_ = true;
};

template <class Coder, class T>
void extent_fields(Coder& coder, T& extent) {
  uint64_t address = extent.address.bits();
  coder.number(address);
  if constexpr (Coder::kReads) extent.address = GlobalAddress(address);
  coder.number(extent.generation);
}

template <class Coder, class M>
void code_field(Coder& coder, M& m) {
  int32_t number = static_cast<int32_t>(m.code);
  coder.number(number);
  if constexpr (Coder::kReads) m.code = static_cast<Code>(number);
}

/// All fields after type and version. False: unknown type.
template <class Coder, class M>
bool fields(Coder& coder, M& m) {
  coder.number(m.request);
  switch (m.type) {
    case MessageType::kHello:
      coder.array(m.session.bytes);
      coder.array(m.nonce);
      return true;
    case MessageType::kChallenge:
      coder.number(m.connection);
      coder.array(m.nonce);
      coder.array(m.proof);
      return true;
    case MessageType::kProof:
      coder.number(m.connection);
      coder.array(m.proof);
      return true;
    case MessageType::kWelcome:
      code_field(coder, m);
      coder.number(m.word_address);
      coder.number(m.word);
      coder.text(m.rkey);
      return true;
    case MessageType::kAttach:
      coder.number(m.connection);
      extent_fields(coder, m.extent);
      coder.number(m.access);
      coder.array(m.proof);
      return true;
    case MessageType::kAttached:
      code_field(coder, m);
      coder.number(m.base);
      coder.number(m.bytes);
      coder.number(m.word_address);
      coder.number(m.word);
      coder.text(m.rkey);
      return true;
    case MessageType::kWake:
      coder.number(m.connection);
      extent_fields(coder, m.extent);
      coder.number(m.offset);
      return true;
    case MessageType::kBye: coder.number(m.connection); return true;
  }
  return false;
}

}  // namespace

std::string encode(const Message& message) {
  OCM_ASSERT(message.rkey.size() <= kRkeyBytesMax);
  Writer writer;
  writer.number(kMessageVersion);
  writer.number(message.type);
  OCM_ASSERT(fields(writer, message));
  return writer.take();
}

Result<Message> decode(std::span<const std::byte> bytes) {
  Message message;
  Reader reader(bytes);
  uint8_t version = 0;
  reader.number(version);
  reader.number(message.type);
  if (!reader.good() || version != kMessageVersion) return Code::kProtocol;
  if (!fields(reader, message) || !reader.finished()) return Code::kProtocol;
  if (!is_code(static_cast<int>(message.code))) return Code::kProtocol;
  if (message.access != Access::kRead && message.access != Access::kReadWrite) return Code::kProtocol;
  if (message.base + message.bytes < message.base) return Code::kProtocol;
  return message;
}

namespace {
constexpr char kAddressMagic[] = {'O', 'M', 'U', 1};
constexpr size_t kAddressHeaderBytes = sizeof kAddressMagic + sizeof(uint32_t);
}  // namespace

std::string encode_address(const std::string& worker_address) {
  Writer crc;
  crc.number(crc32c(0, worker_address.data(), worker_address.size()));
  return std::string(kAddressMagic, sizeof kAddressMagic) + crc.take() + worker_address;
}

Result<std::string> decode_address(const std::string& bytes) {
  if (bytes.size() <= kAddressHeaderBytes ||
      std::memcmp(bytes.data(), kAddressMagic, sizeof kAddressMagic) != 0) {
    return Status(Code::kInvalidArgument, "ucx: not a worker address");
  }
  std::string worker_address = bytes.substr(kAddressHeaderBytes);
  if (encode_address(worker_address) != bytes) {
    return Status(Code::kInvalidArgument, "ucx: a worker address whose checksum does not match");
  }
  return worker_address;
}

os::Digest session_proof(std::span<const std::byte> key, std::string_view label, const Nonce& first,
                         const Nonce& second) {
  return os::hmac_sha256(key, {os::bytes_of(label), first, second});
}

os::Digest attach_proof(const Capability& capability, const Nonce& server_nonce, const ExtentId& extent,
                        Access access) {
  Writer writer;
  writer.number(extent.address.bits());
  writer.number(extent.generation);
  writer.number(access);
  const std::string id = writer.take();
  return os::hmac_sha256(capability.bytes, {server_nonce, os::bytes_of(id)});
}

}  // namespace ocm::fabric::ucx
