// fabric/tcp over TLS: the same bytes, and only for those whose certificate the CA signed.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <thread>

#include "fabric/tcp/socket.h"
#include "fabric/tcp/tls.h"
#include "log_lines.h"
#include "tcp_fixture.h"
#include "tcp_raw_peer.h"
#include "temporary_folder.h"

namespace ocm::fabric::tcp {
namespace {

struct Identity {
  EVP_PKEY* key = nullptr;
  X509* certificate = nullptr;
  ~Identity() {
    EVP_PKEY_free(key);
    X509_free(certificate);
  }
};

/// A key and a certificate for it, signed by `issuer` (null: by itself, as a CA).
void make_identity(Identity& out, const char* name, const Identity* issuer) {
  out.key = EVP_EC_gen("P-256");
  out.certificate = X509_new();
  X509_set_version(out.certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(out.certificate), issuer == nullptr ? 1 : 2);
  X509_gmtime_adj(X509_getm_notBefore(out.certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(out.certificate), 3600);
  X509_set_pubkey(out.certificate, out.key);
  X509_NAME* subject = X509_get_subject_name(out.certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1,
                             -1, 0);
  X509_set_issuer_name(out.certificate,
                       issuer == nullptr ? subject : X509_get_subject_name(issuer->certificate));
  if (issuer == nullptr) {
    X509_EXTENSION* authority =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
    X509_add_ext(out.certificate, authority, -1);
    X509_EXTENSION_free(authority);
  }
  X509_sign(out.certificate, issuer == nullptr ? out.key : issuer->key, EVP_sha256());
}

class TcpTlsTest : public TcpTest {
 protected:
  void SetUp() override {
    write_cluster("ours");
    write_cluster("theirs");
    extent = directory.add(4 << 20);
    start({.tls = files("ours")});
  }
  void TearDown() override { server.reset(); }
  void write_cluster(const std::string& cluster) {
    Identity ca, node;
    make_identity(ca, (cluster + " CA").c_str(), nullptr);
    make_identity(node, (cluster + " node").c_str(), &ca);
    const TlsFiles f = files(cluster);
    write(f.ca_file, [&](FILE* out) { return PEM_write_X509(out, ca.certificate); });
    write(f.cert_file, [&](FILE* out) { return PEM_write_X509(out, node.certificate); });
    write(f.key_file, [&](FILE* out) {
      return PEM_write_PrivateKey(out, node.key, nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  template <class Writer>
  static void write(const std::string& path, Writer&& writer) {
    FILE* out = std::fopen(path.c_str(), "w");
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(writer(out), 1);
    std::fclose(out);
  }
  TlsFiles files(const std::string& cluster) const {
    return {folder + "/" + cluster + ".ca", folder + "/" + cluster + ".crt", folder + "/" + cluster + ".key"};
  }
  Result<std::unique_ptr<Channel>> connect_with(const TlsFiles& tls, const std::string& node = "ours node",
                                                const std::string& address = "") {
    Credentials who = credentials();
    who.tls = tls;
    who.node = node;
    TcpConnector connector;
    return connector.connect({Fabric::kTcp, address.empty() ? server->address() : address, {}}, who, soon());
  }

  const test::TemporaryFolder temporary;
  const std::string folder = temporary.path();
  std::shared_ptr<BufferExtent> extent;
};

TEST_F(TcpTlsTest, MovesBytes) {
  auto made = connect_with(files("ours"));
  ASSERT_TRUE(made.is_ok()) << made.status().to_string();
  Channel& channel = **made;
  auto index = channel.attach(describe(*extent), Access::kReadWrite, soon());
  ASSERT_TRUE(index.is_ok()) << index.status().to_string();
  for (const uint64_t bytes :
       {uint64_t{1}, uint64_t{64}, uint64_t{5000}, uint64_t{100'000}, uint64_t{3'500'001}}) {
    const auto source = pattern(bytes, bytes);
    std::vector<std::byte> target(bytes);
    ASSERT_EQ(put(channel, *index, 5, source.data(), bytes), Code::kOk) << bytes;
    ASSERT_EQ(get(channel, *index, 5, target.data(), bytes), Code::kOk) << bytes;
    ASSERT_EQ(source, target);
  }
}

TEST_F(TcpTlsTest, PutsAndGetsAtOnceDoNotDeadlock) {
  auto made = connect_with(files("ours"));
  ASSERT_TRUE(made.is_ok());
  auto index = (*made)->attach(describe(*extent), Access::kReadWrite, soon());
  ASSERT_TRUE(index.is_ok());
  std::vector<std::byte> buffer(4 << 20);
  std::vector<Op> ops(12);
  for (size_t i = 0; i < ops.size(); ++i) {
    set(ops[i], i % 2 ? OpCode::kGet : OpCode::kPut, *index, 0, buffer.data(), buffer.size());
    (*made)->post(ops[i]);
  }
  (*made)->flush();
  for (Op& op : ops) ASSERT_EQ(wait(**made, op), Code::kOk);
}

TEST_F(TcpTlsTest, RefusesACertificateOfAnotherCa) {
  TlsFiles mixed = files("theirs");
  EXPECT_EQ(connect_with(mixed).status().code(), Code::kAuth);  // it does not accept ours
  mixed.ca_file = files("ours").ca_file;
  const auto refused = connect_with(mixed);  // we do not accept its
  ASSERT_FALSE(refused.is_ok());
  EXPECT_TRUE(refused.status().code() == Code::kAuth || refused.status().code() == Code::kPeerLost);
  EXPECT_TRUE(connect_with(files("ours")).is_ok());
}

TEST_F(TcpTlsTest, RefusesTheCertificateOfAnotherNode) {
  for (const char* node : {"another node", "", ".ours node", "our", "node"}) {
    const Status refused = connect_with(files("ours"), node).status();
    EXPECT_EQ(refused.code(), Code::kAuth) << node;
    EXPECT_NE(refused.to_string().find("/CN=ours node: it carries neither name nor address of 127.0.0.1"),
              std::string::npos)
        << refused.to_string();
  }
}

/// Stands between a client and the server with the CA's certificate on both sides, and passes on what they
/// say.
void pass_on(int listener, const std::string& target, const TlsFiles& files) {
  pollfd waiting{listener, POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 10'000), 1);
  const os::Fd near(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  auto far = connect_to(target, os::Deadline::after_ns(10'000'000'000));
  ASSERT_TRUE(far.is_ok());
  auto inner = TlsConnection::make(TlsContext::load(files, TlsRole::kServer).value(), near.get());
  auto outer = TlsConnection::make(TlsContext::load(files, TlsRole::kClient).value(), far->get());
  TlsConnection* ends[] = {inner->get(), outer->get()};
  std::vector<std::byte> kept[2];  // for the other end
  bool open = true;
  while (open) {
    for (int i = 0; i < 2 && open; ++i) {
      std::byte piece[4096];
      const ssize_t n = ends[i]->receive(piece, sizeof(piece));
      if (n > 0) kept[i].insert(kept[i].end(), piece, piece + n);
      const iovec part{kept[i].data(), kept[i].size()};
      const ssize_t sent = ends[1 - i]->send(&part, kept[i].empty() ? 0 : 1);
      if (sent > 0) kept[i].erase(kept[i].begin(), kept[i].begin() + sent);
      open = n >= 0 && sent >= 0;
    }
    pollfd both[] = {{near.get(), POLLIN, 0}, {far->get(), POLLIN, 0}};
    if (open) ::poll(both, 2, 1);
  }
}

TEST_F(TcpTlsTest, AProofIsGoodOnItsOwnChannelOnly) {
  auto listener = listen_on("127.0.0.1:0");
  ASSERT_TRUE(listener.is_ok());
  const std::string address = bound_address(listener->get()).value();
  std::thread relay([&] { pass_on(listener->get(), server->address(), files("ours")); });
  const Status refused = connect_with(files("ours"), "ours node", address).status();
  relay.join();
  EXPECT_EQ(refused.code(), Code::kAuth) << refused.to_string();
  EXPECT_NE(refused.to_string().find("session's key"), std::string::npos) << refused.to_string();
}

TEST_F(TcpTlsTest, RefusesAPlainClient) {
  TcpConnector connector;
  const auto plain = connector.connect({Fabric::kTcp, server->address(), {}}, credentials(), soon());
  EXPECT_FALSE(plain.is_ok());
  EXPECT_TRUE(connect_with(files("ours")).is_ok());
}

/// A peer that changes its keys again and again, without a byte of data, has its turn as others have.
TEST_F(TcpTlsTest, OneReceiveTakesOneRecordWithoutData) {
  constexpr int kUpdates = 50;
  int both[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both), 0);
  const os::Fd near(both[0]), far(both[1]);
  auto context = TlsContext::load(files("ours"), TlsRole::kServer);
  ASSERT_TRUE(context.is_ok());
  auto made = TlsConnection::make(context.value(), far.get());
  ASSERT_TRUE(made.is_ok());
  TlsConnection& home = *made.value();
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> client(SSL_CTX_new(TLS_client_method()),
                                                                 SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> peer(SSL_new(client.get()), SSL_free);
  SSL_set_fd(peer.get(), near.get());
  std::byte byte{};
  while (SSL_connect(peer.get()) != 1) ASSERT_EQ(home.receive(&byte, 1), 0);
  for (int i = 0; i < kUpdates; ++i) {
    ASSERT_EQ(SSL_key_update(peer.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(peer.get()), 1);
  }
  ASSERT_EQ(SSL_write(peer.get(), "x", 1), 1);
  int without_data = 0;
  while (home.receive(&byte, 1) == 0 && without_data < 2 * kUpdates) ++without_data;
  EXPECT_EQ(byte, std::byte{'x'});
  EXPECT_GE(without_data, kUpdates);
}

/// Of one peer: each reason at once, and then once in a while.
TEST_F(TcpTlsTest, RefusalsAreToldAsEventsOfTheLogLimiterAre) {
  test::LogLines lines;
  // The one speaks without TLS, the other one says that it refuses the server's certificate.
  for (const std::string& said :
       {std::string("GET / HTTP/1.0\r\n\r\n"), std::string("\x15\x03\x01\0\x02\x02\x30", 7)}) {
    for (int i = 0; i < 20; ++i) RawPeer(server->address()).write_and_wait_for_the_end(os::bytes_of(said));
  }
  const auto told = lines.of("tcp.tls_refused");
  ASSERT_EQ(told.size(), 2u);
  for (const std::string& line : told) {
    EXPECT_NE(line.find("peer=127.0.0.1 "), std::string::npos) << line;
    EXPECT_NE(line.find("why="), std::string::npos) << line;
    EXPECT_NE(line.find("left_out=0"), std::string::npos) << line;
  }
}

TEST_F(TcpTlsTest, MissingFilesAreAnError) {
  TlsFiles missing = files("ours");
  missing.key_file = folder + "/none";
  EXPECT_EQ(connect_with(missing).status().code(), Code::kAuth);
  EXPECT_FALSE(TcpServer::start({.tls = missing}, directory, stats).is_ok());
}

}  // namespace
}  // namespace ocm::fabric::tcp
