// fabric/tcp: one connection of the data server, fed over a socket pair.
//
// The first byte chooses how far the peer gets before the bytes that follow: 0 a stranger, 1 it proved its
// session and attached an extent, 2 the same and the bytes describe frames, whose checksums are made right. From 128 on the
// extent is on a device, which answers when nothing else moves.
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>

#include "fabric/tcp/connection.h"
#include "fuzz.h"
#include "os/crypto.h"

using namespace ocm;
using namespace ocm::fabric;

namespace {

constexpr uint64_t kExtentBytes = 4096, kGuardBytes = 4096;
constexpr uint64_t kRunBytes = 512;  // less than many requests and answers have: what is left is run again

class Device final : public Staged {
 public:
  explicit Device(std::byte* bytes) : bytes_(bytes) {}
  void read(uint64_t offset, std::span<std::byte> into, Done done) override {
    add([=, this] { std::copy_n(bytes_ + offset, into.size(), into.data()); }, std::move(done));
  }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    add([=, this] { std::copy_n(from.data(), from.size(), bytes_ + offset); }, std::move(done));
  }
  void modify(uint64_t offset, std::function<void(std::byte*)> change, Done done) override {
    add([=, this] { change(bytes_ + offset); }, std::move(done));
  }
  /// Carries out the oldest call. False: there is none.
  bool step() {
    if (calls_.empty()) return false;
    const auto [move, done] = std::move(calls_.front());
    calls_.pop_front();
    move();
    done({});
    return true;
  }

 private:
  void add(std::function<void()> move, Done done) { calls_.emplace_back(std::move(move), std::move(done)); }

  std::byte* const bytes_;
  std::deque<std::pair<std::function<void()>, Done>> calls_;
};

struct Extent final : ServedExtent {
  std::vector<std::byte> memory = std::vector<std::byte>(kExtentBytes + 2 * kGuardBytes, std::byte{0x77});
  Extent() {
    id = {GlobalAddress(1, 4096), 3};
    bytes = kExtentBytes;
    data = memory.data() + kGuardBytes;
    capability.bytes.fill(std::byte{5});
  }
  bool guards_hold() const {
    const auto whole = [](const std::byte* at) {
      return std::all_of(at, at + kGuardBytes, [](std::byte b) { return b == std::byte{0x77}; });
    };
    return whole(memory.data()) && whole(memory.data() + kGuardBytes + kExtentBytes);
  }
  void put_on_device() {
    staged = &device;
    data = nullptr;
  }
  Device device{memory.data() + kGuardBytes};
};

struct Directory final : ExtentDirectory {
  std::shared_ptr<Extent> extent = std::make_shared<Extent>();
  Result<std::shared_ptr<ServedExtent>> open(ExtentId id) override {
    if (id != extent->id) return Status(Code::kNotFound, "no such extent");
    return std::shared_ptr<ServedExtent>(extent);
  }
  std::array<std::byte, 32> session_key(const SessionId&) override { return {}; }
};

class Peer {
 public:
  explicit Peer(bool on_device) {
    if (on_device) directory_.extent->put_on_device();
    int ends[2];
    OCM_ASSERT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    mine_ = os::Fd(ends[0]);
    connection_ = std::make_unique<tcp::Connection>(tcp::Stream(os::Fd(ends[1])), directory_, stats_, fences_,
                                                    places_, attachments_, buffers_, bell_);
  }
  ~Peer() {  // what the device has is done some time, also for a connection that has ended
    connection_->abort();
    while (directory_.extent->device.step()) {
    }
  }
  /// Sends it, moves the server until nothing moves, and takes the answers.
  void send(std::span<const std::byte> bytes) {
    while (!connection_->is_closed()) {
      const ssize_t n = bytes.empty() ? 0 : ::send(mine_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
      bool moved = n > 0;
      while (!connection_->is_closed() && connection_->run(*scratch_, kRunBytes)) moved = true;
      std::byte answers[4096];
      for (ssize_t got; (got = ::recv(mine_.get(), answers, sizeof(answers), 0)) > 0;) {
        moved = true;
        if (replies_.size() < 4096) replies_.insert(replies_.end(), answers, answers + got);
      }
      if (!moved && !directory_.extent->device.step()) break;
    }
  }
  void frame(wire::FrameHeader header, std::span<const std::byte> payload) {
    std::vector<std::byte> bytes(wire::kFrameHeaderBytes);
    wire::encode_frame(header, bytes.data());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    send(bytes);
  }
  void enter() {
    tcp::Nonce client{}, server{};
    std::vector<std::byte> hello(tcp::kHelloBytes);
    frame({.type = wire::FrameType::kHello, .length = hello.size()}, hello);
    OCM_ASSERT(replies_.size() == wire::kFrameHeaderBytes + tcp::kChallengeBytes);
    std::memcpy(server.data(), replies_.data() + wire::kFrameHeaderBytes, server.size());
    frame({.type = wire::FrameType::kProof, .length = tcp::kProofBytes},
          tcp::client_proof(std::array<std::byte, 32>{}, client, server, {}));
    OCM_ASSERT(connection_->is_authenticated());
    wire::AttachBody body;
    body.address = directory_.extent->id.address.bits();
    body.generation = directory_.extent->id.generation;
    body.access = 3;
    body.proof = tcp::attach_proof(directory_.extent->capability, server, body);
    std::vector<std::byte> attach(wire::kAttachBodyBytes);
    wire::encode_attach(body, attach.data());
    frame({.type = wire::FrameType::kAttach, .length = attach.size()}, attach);
  }
  bool is_closed() const { return connection_->is_closed(); }
  const Extent& extent() const { return *directory_.extent; }

 private:
  Directory directory_;
  ServerStats stats_;
  tcp::Fences fences_;
  tcp::Places places_{64, 0};
  tcp::Attachments attachments_{8, 0};
  tcp::Buffers buffers_{1 << 20, 0};
  const std::shared_ptr<tcp::Bell> bell_ =
      std::make_shared<tcp::Bell>(os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  os::Fd mine_;
  std::unique_ptr<tcp::Scratch> scratch_ = std::make_unique<tcp::Scratch>();
  std::unique_ptr<tcp::Connection> connection_;
  std::vector<std::byte> replies_;
};

/// type(1) index(1) flags(1) offset(8) length(8) operand(8) payload length(1) payload
constexpr size_t kDescribedBytes = 28;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int mode = data[0] % 128 % 3;
  auto bytes = fuzz::bytes_of(data + 1, size - 1);
  Peer peer(data[0] >= 128);
  if (mode != 0) peer.enter();
  if (mode != 2) {
    const size_t cut = bytes.empty() ? 0 : data[0] % 128 % bytes.size();  // in two pieces
    peer.send(bytes.first(cut));
    peer.send(bytes.subspan(cut));
  }
  while (mode == 2 && bytes.size() >= kDescribedBytes && !peer.is_closed()) {
    wire::FrameHeader header;
    header.type = static_cast<wire::FrameType>(bytes[0]);
    header.index = static_cast<uint32_t>(bytes[1]);
    header.flags = static_cast<uint32_t>(bytes[2]);
    std::memcpy(&header.offset, bytes.data() + 3, 8);
    std::memcpy(&header.length, bytes.data() + 11, 8);
    std::memcpy(&header.operand, bytes.data() + 19, 8);
    const size_t payload = std::min<size_t>(static_cast<size_t>(bytes[27]), bytes.size() - kDescribedBytes);
    peer.frame(header, bytes.subspan(kDescribedBytes, payload));
    bytes = bytes.subspan(kDescribedBytes + payload);
  }
  OCM_ASSERT(peer.extent().guards_hold());
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  const auto described = [](wire::FrameType type, uint64_t offset, uint64_t length, size_t payload) {
    std::string text(kDescribedBytes + payload, '\1');
    text[0] = static_cast<char>(type);
    text[1] = text[2] = 0;
    std::memcpy(text.data() + 3, &offset, 8);
    std::memcpy(text.data() + 11, &length, 8);
    text[27] = static_cast<char>(payload);
    return text;
  };
  std::string all(1, '\2');
  for (int type = 3; type <= 14; ++type) {
    const auto frame = static_cast<wire::FrameType>(type);
    const uint64_t length = frame == wire::FrameType::kPut || frame == wire::FrameType::kCompareSwap ? 8 : 0;
    all += described(frame, 64, length, length);
    out.push_back("\2" + described(frame, 4095, length, length));
    out.push_back("\2" + described(frame, ~0ull, ~0ull, 0));
  }
  out.push_back(all);
  out.push_back("\2" + described(wire::FrameType::kGet, 0, 4096, 0) +
                described(wire::FrameType::kPut, 0, 200, 200));
  using Type = wire::FrameType;
  for (const auto& [type, length] : {std::pair<Type, uint64_t>{Type::kHello, tcp::kHelloBytes},
                                     {Type::kHello, tcp::kHelloBytes + tcp::kVersionsBytes},
                                     {Type::kPut, 100},
                                     {Type::kGet, 100}}) {
    wire::FrameHeader header;
    header.type = type;
    header.length = length;
    std::string text(1 + wire::kFrameHeaderBytes + 100, '\1');
    wire::encode_frame(header, reinterpret_cast<std::byte*>(text.data() + 1));
    out.push_back(text);
    text[0] = 1;
    out.push_back(text);
  }
  for (std::string text : std::vector<std::string>(out)) {
    text[0] = static_cast<char>(text[0] | '\x80');
    out.push_back(text);
  }
  return out;
}
