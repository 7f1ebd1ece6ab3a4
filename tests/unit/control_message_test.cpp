// wire/control: how a status travels in a reply, and what of a hostile one is taken.
#include <gtest/gtest.h>

#include "base/text.h"
#include "control.pb.h"
#include "wire/control.h"

namespace ocm::wire {
namespace {

Envelope failed(const Status& status) {
  Envelope reply;
  put_status(status, reply);
  return reply;
}
/// As its receiver parses it; code PROTOCOL if that fails.
Status received(const Envelope& reply) {
  std::string bytes;
  if (!append_control(reply, bytes).is_ok()) return Code::kInternal;
  Envelope out;
  const auto* start = reinterpret_cast<const std::byte*>(bytes.data());
  OCM_TRY(parse_control({start + kControlHeaderBytes, bytes.size() - kControlHeaderBytes}, out));
  return status_of(out);
}

TEST(StatusOnTheWire, KeepsSentenceNodeAndSubject) {
  const Status got = received(failed(Status::of_node(Code::kPeerLost, "n2", " does not answer")
                                         .with_subject(Subject::kAllocation, "orders")));
  EXPECT_EQ(got.to_string(), "PEER_LOST: node n2 does not answer");
  EXPECT_EQ(got.node(), "n2");
  EXPECT_EQ(got.subject(), "orders");
  EXPECT_EQ(got.subject_kind(), Subject::kAllocation);
}

TEST(StatusOnTheWire, ALaterReplyInTheSameMessageKeepsNothingOfTheFormer) {
  Envelope reply =
      failed(Status::of_node(Code::kPeerLost, "n2", ": gone").with_subject(Subject::kTable, "t"));
  put_status(Status(), reply);
  EXPECT_EQ(reply.ByteSizeLong(), 0u);
  put_status(Status(Code::kQuota), reply);
  EXPECT_EQ(status_of(reply).node(), "");
}

TEST(StatusOnTheWire, WhatTheReceiverWouldRefuseIsNotSent) {
  std::string half(kDetailBytesMax - 1, 'x');
  half += "\u00e9";
  EXPECT_EQ(received(failed(Status(Code::kQuota, half))).message().size(), kDetailBytesMax - 1);
  EXPECT_EQ(received(failed(Status(Code::kQuota, "socket \xff"))).message(), "socket ");
  for (const std::string& name :
       {std::string(kNameBytesMax + 1, 'n'), std::string("n\xff"), std::string("n\0m", 3)}) {
    const Status got =
        received(failed(Status(Code::kQuota).with_node(name).with_subject(Subject::kTable, name)));
    EXPECT_EQ(got.code(), Code::kQuota);
    EXPECT_EQ(got.node(), "");
    EXPECT_EQ(got.subject_kind(), Subject::kNone);
  }
}

TEST(StatusOnTheWire, AHostileReplyNamesNothing) {
  for (const std::string& name : {std::string(100'000, 'n'), std::string("n\0m", 3)}) {
    Envelope reply = failed(Status(Code::kQuota, "x"));
    reply.set_failed_node(name);
    reply.set_failed_subject(name);
    reply.set_failed_subject_kind(static_cast<uint32_t>(Subject::kTable));
    const Status got = received(reply);
    EXPECT_EQ(got.to_string(), "QUOTA: x");
    EXPECT_EQ(got.node(), "");
    EXPECT_EQ(got.subject(), "");
  }
  for (const uint32_t kind : {7u, 1u << 31, ~0u}) {
    Envelope reply = failed(Status(Code::kQuota, "x"));
    reply.set_failed_subject("t");
    reply.set_failed_subject_kind(kind);
    EXPECT_EQ(received(reply).subject(), "") << kind;
  }
}

TEST(StatusOnTheWire, AnUnknownCodeIsAFaultOfThePeer) {
  for (const int code : {1, -1000, 99, -8}) {
    Envelope reply;
    reply.set_code(code);
    EXPECT_EQ(status_of(reply).code(), Code::kProtocol) << code;
  }
}

}  // namespace
}  // namespace ocm::wire
