#include "fabric/tcp/connector.h"

#include <poll.h>

#include <cstring>

#include "fabric/tcp/socket.h"
#include "fabric/wait.h"
#include "os/interrupt.h"

namespace ocm::fabric::tcp {
namespace {

using wire::FrameHeader;
using wire::FrameType;
using wire::kFrameHeaderBytes;

constexpr uint64_t kSpinNs = 50'000;

/// The exchange of a few small frames before there is a channel, each with the connect's deadline.
class Talk {
 public:
  Talk(Stream& stream, os::Deadline deadline) : stream_(stream), deadline_(deadline) {}

  Status send(FrameHeader header, std::span<const std::byte> first, std::span<const std::byte> second) {
    header.length = first.size() + second.size();
    TxQueue queue;
    std::byte* out = queue.append(kFrameHeaderBytes + header.length);
    wire::encode_frame(header, out);
    std::memcpy(out + kFrameHeaderBytes, first.data(), first.size());
    if (!second.empty()) std::memcpy(out + kFrameHeaderBytes + first.size(), second.data(), second.size());
    waiter_.moved(os::now_ns());
    for (;;) {
      const ssize_t n = queue.send(stream_);
      if (n < 0) return lost(n);
      if (queue.empty()) return {};
      // TLS shakes hands inside: it may have to hear before it can speak.
      OCM_TRY(wait(POLLIN | POLLOUT));
    }
  }

  /// Receives a frame of `type` with exactly payload.size() bytes; an error frame becomes its status.
  Status expect(FrameType type, std::span<std::byte> payload) {
    std::array<std::byte, kFrameHeaderBytes> bytes;
    OCM_TRY(read(bytes));
    FrameHeader header;
    if (!wire::decode_frame(bytes.data(), header).is_ok()) return not_ours();
    if (header.type == FrameType::kError) {
      const auto code = static_cast<int64_t>(header.operand);
      if (code >= 0 || code < -1000 || !is_code(static_cast<int>(code))) return not_ours();
      return refused(static_cast<Code>(code), header.offset);
    }
    if (header.type != type || header.length != payload.size()) return not_ours();
    return read(payload);
  }

 private:
  /// `share`: see FrameType::kError.
  static Status refused(Code code, uint64_t share) {
    if (code == Code::kProtocol && share != 0) {
      const wire::Versions there{.min = static_cast<uint32_t>(share >> 32),
                                 .max = static_cast<uint32_t>(share)};
      const Status none = wire::agree("data", wire::kDataVersions, there).status();
      return none.is_ok() ? not_ours() : none;
    }
    if (code != Code::kLimit) return code;
    if (share == 0)
      return Status(
          code,
          "the home takes no more data connections ([limits] connections, or its descriptors: LimitNOFILE)");
    return Status(code,
                  "this user has " + std::to_string(share) +
                      " data connections, all that one user may have of the home's ([limits] connections)");
  }
  static Status not_ours() { return Status(Code::kProtocol, "the peer is not an Oncilla data server"); }
  Status lost(ssize_t n) const {
    if (n == -EPROTO) return Status(Code::kAuth, "TLS: " + stream_.refusal());
    return Status(Code::kPeerLost, "connection lost while connecting");
  }

  Status read(std::span<std::byte> out) {
    while (!out.empty()) {
      const ssize_t n = stream_.receive(out.data(), out.size());
      if (n < 0) return lost(n);
      if (n == 0) {
        if (stream_.keeps_output()) {
          TxQueue nothing;
          if (const ssize_t sent = nothing.send(stream_); sent < 0) return lost(sent);
        }
        OCM_TRY(wait(POLLIN));
        continue;
      }
      waiter_.moved(os::now_ns());
      out = out.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  /// Spins a little, then polls; at most 1 ms, since TLS may wait for either direction.
  Status wait(short events) {
    if (waiter_.spins(os::now_ns())) return {};
    if (deadline_.passed()) return Status(Code::kDeadline, "no answer while connecting");
    if (stream_.is_encrypted()) events = POLLIN;
    pollfd p{stream_.fd(), events, 0};
    ::poll(&p, 1, deadline_.poll_ms(stream_.is_encrypted() ? 1 : interrupts_.sleep_ms(100)));
    return interrupts_.came() ? os::interrupted() : Status();
  }

  Stream& stream_;
  os::Deadline deadline_;
  Waiter waiter_{kSpinNs};
  os::Interrupts interrupts_;
};

/// Says hello, with `versions_bytes` of them, and receives what the home answers.
Result<std::vector<std::byte>> challenge_of(Stream& stream, os::Deadline deadline, const Credentials& who,
                                            const Nonce& client_nonce, size_t versions_bytes) {
  Talk talk(stream, deadline);
  FrameHeader hello;
  hello.type = FrameType::kHello;
  hello.operand = who.route;
  hello.offset = who.attempt;
  std::array<std::byte, kNonceBytes + kVersionsBytes> rest;
  std::copy(client_nonce.begin(), client_nonce.end(), rest.begin());
  encode_versions(wire::kDataVersions, rest.data() + kNonceBytes);
  OCM_TRY(talk.send(hello, who.session.bytes, std::span(rest).first(kNonceBytes + versions_bytes)));
  std::vector<std::byte> out(kChallengeBytes + versions_bytes);
  OCM_TRY(talk.expect(FrameType::kChallenge, out));
  return out;
}

}  // namespace

Result<std::shared_ptr<TlsContext>> TcpConnector::context_for(const TlsFiles& files) {
  const std::string name = files.ca_file + "\n" + files.cert_file + "\n" + files.key_file;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<TlsContext>& context = contexts_[name];
  if (!context) {
    OCM_TRY_ASSIGN(context, TlsContext::load(files, TlsRole::kClient));
  }
  return context;
}

Result<Stream> TcpConnector::open(const FabricAddress& address, const Credentials& who,
                                  os::Deadline deadline) {
  OCM_TRY_ASSIGN(os::Fd fd, connect_to(address.address, deadline));
  std::unique_ptr<TlsConnection> tls;
  if (who.tls.enabled()) {
    OCM_TRY_ASSIGN(std::shared_ptr<TlsContext> context, context_for(who.tls));
    const std::string host = address.address.substr(0, address.address.rfind(':'));
    const bool v6 = host.starts_with('[') && host.ends_with(']');
    OCM_TRY_ASSIGN(tls, TlsConnection::make(std::move(context), fd.get(),
                                            {v6 ? host.substr(1, host.size() - 2) : host, who.node}));
  }
  return Stream(std::move(fd), std::move(tls));
}

Result<std::unique_ptr<Channel>> TcpConnector::connect(const FabricAddress& address, const Credentials& who,
                                                       os::Deadline deadline) {
  Nonce client_nonce;
  os::fill_random(client_nonce);
  OCM_TRY_ASSIGN(Stream stream, open(address, who, deadline));
  auto challenge = challenge_of(stream, deadline, who, client_nonce, kVersionsBytes);
  if (challenge.status().code() ==
      Code::kPeerLost) {  // a home that knows no ranges hangs up on a longer hello
    OCM_TRY_ASSIGN(stream, open(address, who, deadline));
    challenge = challenge_of(stream, deadline, who, client_nonce, 0);
  }
  if (!challenge.is_ok()) return challenge.status();
  const std::span<const std::byte> said(challenge.value());
  OCM_TRY(wire::agree("data", wire::kDataVersions, decode_versions(said.subspan(kChallengeBytes))).status());
  Nonce server_nonce;
  std::copy_n(said.begin(), kNonceBytes, server_nonce.begin());
  const os::Digest expected = server_proof(who.session_key, client_nonce, server_nonce, stream.binding());
  if (!os::equal_secrets(expected, said.subspan(kNonceBytes, kChallengeBytes - kNonceBytes))) {
    return Status(Code::kAuth, "the server does not know this session's key");
  }
  Talk talk(stream, deadline);
  FrameHeader proof;
  proof.type = FrameType::kProof;
  OCM_TRY(talk.send(proof, client_proof(who.session_key, client_nonce, server_nonce, stream.binding()), {}));
  OCM_TRY(talk.expect(FrameType::kReply, {}));
  return std::unique_ptr<Channel>(new TcpChannel(std::move(stream), server_nonce, options_));
}

}  // namespace ocm::fabric::tcp
