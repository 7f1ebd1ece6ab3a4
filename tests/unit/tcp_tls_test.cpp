// fabric/tcp over TLS: the same bytes, and only for those whose certificate the CA signed.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>

#include "tcp_fixture.h"

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
    char name[] = "/tmp/ocm_tls_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = name;
    write_cluster("ours");
    write_cluster("theirs");
    extent = directory.add(4 << 20);
    start({.tls = files("ours")});
  }
  void TearDown() override {
    server.reset();
    std::filesystem::remove_all(folder);
  }
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
  Result<std::unique_ptr<Channel>> connect_with(const TlsFiles& tls) {
    Credentials who = credentials();
    who.tls = tls;
    TcpConnector connector;
    return connector.connect({Fabric::kTcp, server->address(), {}}, who, soon());
  }

  std::string folder;
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

TEST_F(TcpTlsTest, RefusesAPlainClient) {
  TcpConnector connector;
  const auto plain = connector.connect({Fabric::kTcp, server->address(), {}}, credentials(), soon());
  EXPECT_FALSE(plain.is_ok());
  EXPECT_TRUE(connect_with(files("ours")).is_ok());
}

TEST_F(TcpTlsTest, MissingFilesAreAnError) {
  TlsFiles missing = files("ours");
  missing.key_file = folder + "/none";
  EXPECT_EQ(connect_with(missing).status().code(), Code::kAuth);
  EXPECT_FALSE(TcpServer::start({.tls = missing}, directory, stats).is_ok());
}

}  // namespace
}  // namespace ocm::fabric::tcp
